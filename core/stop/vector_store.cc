#include "core/stop/vector_store.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>

namespace friday {

namespace {

// Components of the XSAVE area: 1 SSE, 2 AVX (upper halves of ymm), 6 upper halves of zmm0-15, 7 zmm16-31.
size_t component_offset(unsigned component) {
  unsigned size = 0, offset = 0, ecx = 0, edx = 0;
  __cpuid_count(0xd, component, size, offset, ecx, edx);
  return offset;
}
const size_t ymm_offset = component_offset(2), zmm_upper_offset = component_offset(6), zmm16_offset = component_offset(7);

// A component whose bit is clear in XSTATE_BV is in its initial state, zero, whatever the bytes say.
bool copy_component(std::span<const std::byte> state, unsigned component, size_t offset, std::span<std::byte> out) {
  constexpr size_t header = 512;
  if (state.size() < header + 8) return false;
  uint64_t present;
  std::memcpy(&present, state.data() + header, sizeof present);
  if (!(present >> component & 1)) {
    std::ranges::fill(out, std::byte{0});
    return true;
  }
  if (offset == 0 || offset + out.size() > state.size()) return false;
  std::copy_n(state.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
  return true;
}

// All 64 bytes of vector register `id`, as far as `bytes` asks for them.
bool vector_register(std::span<const std::byte> state, unsigned id, size_t bytes, std::span<std::byte, 64> out) {
  if (id >= 16) return copy_component(state, 7, zmm16_offset == 0 ? 0 : zmm16_offset + size_t{id - 16} * 64, out);
  if (!copy_component(state, 1, 160 + size_t{id} * 16, out.first(16))) return false;
  if (bytes > 16 && !copy_component(state, 2, ymm_offset == 0 ? 0 : ymm_offset + size_t{id} * 16, out.subspan(16, 16)))
    return false;
  return bytes <= 32 ||
         copy_component(state, 6, zmm_upper_offset == 0 ? 0 : zmm_upper_offset + size_t{id} * 32, out.subspan(32, 32));
}

enum class Form : uint8_t { unknown, whole, aligned, high_half };

Form form_of(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOVUPS: case ZYDIS_MNEMONIC_MOVUPD: case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_VMOVUPS: case ZYDIS_MNEMONIC_VMOVUPD: case ZYDIS_MNEMONIC_VMOVDQU:
    case ZYDIS_MNEMONIC_VMOVDQU8: case ZYDIS_MNEMONIC_VMOVDQU16: case ZYDIS_MNEMONIC_VMOVDQU32:
    case ZYDIS_MNEMONIC_VMOVDQU64:
    case ZYDIS_MNEMONIC_MOVQ: case ZYDIS_MNEMONIC_MOVD: case ZYDIS_MNEMONIC_VMOVQ: case ZYDIS_MNEMONIC_VMOVD:
    case ZYDIS_MNEMONIC_MOVSS: case ZYDIS_MNEMONIC_MOVSD: case ZYDIS_MNEMONIC_VMOVSS: case ZYDIS_MNEMONIC_VMOVSD:
    case ZYDIS_MNEMONIC_MOVLPS: case ZYDIS_MNEMONIC_MOVLPD: case ZYDIS_MNEMONIC_VMOVLPS: case ZYDIS_MNEMONIC_VMOVLPD:
      return Form::whole;
    case ZYDIS_MNEMONIC_MOVAPS: case ZYDIS_MNEMONIC_MOVAPD: case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVNTDQ: case ZYDIS_MNEMONIC_MOVNTPS: case ZYDIS_MNEMONIC_MOVNTPD:
    case ZYDIS_MNEMONIC_VMOVAPS: case ZYDIS_MNEMONIC_VMOVAPD: case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQA32: case ZYDIS_MNEMONIC_VMOVDQA64:
    case ZYDIS_MNEMONIC_VMOVNTDQ: case ZYDIS_MNEMONIC_VMOVNTPS: case ZYDIS_MNEMONIC_VMOVNTPD:
      return Form::aligned;
    case ZYDIS_MNEMONIC_MOVHPS: case ZYDIS_MNEMONIC_MOVHPD: case ZYDIS_MNEMONIC_VMOVHPS: case ZYDIS_MNEMONIC_VMOVHPD:
      return Form::high_half;
    default: return Form::unknown;
  }
}

bool is_vector(ZydisRegister reg) {
  ZydisRegisterClass of = ZydisRegisterGetClass(reg);
  return of == ZYDIS_REGCLASS_XMM || of == ZYDIS_REGCLASS_YMM || of == ZYDIS_REGCLASS_ZMM;
}

}  // namespace

std::optional<std::span<const std::byte>> vector_store_data(const Instruction& instruction, uint64_t address,
                                                            std::span<const std::byte> state,
                                                            std::span<std::byte, 64> buffer) {
  Form form = form_of(instruction.decoded.mnemonic);
  if (form == Form::unknown) return std::nullopt;
  ZydisRegister mask = instruction.decoded.avx.mask.reg;
  if (mask != ZYDIS_REGISTER_NONE && mask != ZYDIS_REGISTER_K0) return std::nullopt;
  size_t size = instruction.operand(0).size / 8u;
  const ZydisDecodedOperand* source = nullptr;
  for (unsigned i = 1; i < instruction.decoded.operand_count && !source; ++i)
    if (instruction.operand(i).type == ZYDIS_OPERAND_TYPE_REGISTER && is_vector(instruction.operand(i).reg.value))
      source = &instruction.operand(i);
  if (!source || size > 64 || (form == Form::aligned && address % size != 0)) return std::nullopt;
  if (!vector_register(state, static_cast<unsigned>(ZydisRegisterGetId(source->reg.value)), size, buffer))
    return std::nullopt;
  return buffer.subspan(form == Form::high_half ? 8 : 0, size);
}

}  // namespace friday
