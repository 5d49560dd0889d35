#include "core/stop/vector_store.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace friday {

namespace {

// Components of the XSAVE area: 1 is SSE, 2 AVX (upper halves of ymm), 5 the mask registers, 6 the upper halves of
// zmm0-15, 7 zmm16-31.
size_t component_offset(unsigned component) {
  unsigned size = 0, offset = 0, ecx = 0, edx = 0;
  __cpuid_count(0xd, component, size, offset, ecx, edx);
  return offset;
}
const size_t ymm_offset = component_offset(2), zmm_upper_offset = component_offset(6),
             zmm16_offset = component_offset(7), mask_offset = component_offset(5);

// A component whose bit in XSTATE_BV is clear is in its initial state (zero), whatever its bytes contain.
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

}  // namespace

bool vector_register(std::span<const std::byte> state, unsigned id, size_t bytes, std::span<std::byte, 64> out) {
  if (id >= 16) return copy_component(state, 7, zmm16_offset == 0 ? 0 : zmm16_offset + size_t{id - 16} * 64, out);
  if (!copy_component(state, 1, 160 + size_t{id} * 16, out.first(16))) return false;
  if (bytes > 16 && !copy_component(state, 2, ymm_offset == 0 ? 0 : ymm_offset + size_t{id} * 16, out.subspan(16, 16)))
    return false;
  return bytes <= 32 ||
         copy_component(state, 6, zmm_upper_offset == 0 ? 0 : zmm_upper_offset + size_t{id} * 32, out.subspan(32, 32));
}

namespace {

enum class Form : uint8_t { unknown, whole, aligned, high_half };

Form form_of(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_VMOVUPS:
    case ZYDIS_MNEMONIC_VMOVUPD:
    case ZYDIS_MNEMONIC_VMOVDQU:
    case ZYDIS_MNEMONIC_VMOVDQU8:
    case ZYDIS_MNEMONIC_VMOVDQU16:
    case ZYDIS_MNEMONIC_VMOVDQU32:
    case ZYDIS_MNEMONIC_VMOVDQU64:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_VMOVQ:
    case ZYDIS_MNEMONIC_VMOVD:
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_VMOVSS:
    case ZYDIS_MNEMONIC_VMOVSD:
    case ZYDIS_MNEMONIC_MOVLPS:
    case ZYDIS_MNEMONIC_MOVLPD:
    case ZYDIS_MNEMONIC_VMOVLPS:
    case ZYDIS_MNEMONIC_VMOVLPD: return Form::whole;
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVNTDQ:
    case ZYDIS_MNEMONIC_MOVNTPS:
    case ZYDIS_MNEMONIC_MOVNTPD:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQA32:
    case ZYDIS_MNEMONIC_VMOVDQA64:
    case ZYDIS_MNEMONIC_VMOVNTDQ:
    case ZYDIS_MNEMONIC_VMOVNTPS:
    case ZYDIS_MNEMONIC_VMOVNTPD: return Form::aligned;
    case ZYDIS_MNEMONIC_MOVHPS:
    case ZYDIS_MNEMONIC_MOVHPD:
    case ZYDIS_MNEMONIC_VMOVHPS:
    case ZYDIS_MNEMONIC_VMOVHPD: return Form::high_half;
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

namespace {

// Bit i tells whether element i (of `size` bytes) is stored. The mask is a mask register, or the highest bits of a
// vector's elements.
std::optional<uint64_t> mask_of(const Instruction& instruction, size_t size, std::span<const std::byte> state) {
  const ZydisRegister mask = instruction.decoded.avx.mask.reg;
  if (mask >= ZYDIS_REGISTER_K1 && mask <= ZYDIS_REGISTER_K7) {
    std::array<std::byte, 8> bits;
    const size_t offset = mask_offset == 0 ? 0 : mask_offset + 8u * static_cast<unsigned>(ZydisRegisterGetId(mask));
    if (!copy_component(state, 5, offset, bits)) return std::nullopt;
    return std::bit_cast<uint64_t>(bits);
  }
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VMASKMOVPD: break;
    default: return std::nullopt;
  }
  const ZydisRegister vector = instruction.operand(1).reg.value;
  const size_t bytes = instruction.operand(1).size / 8u;
  std::array<std::byte, 64> data;
  if (bytes > data.size() || !vector_register(state, static_cast<unsigned>(ZydisRegisterGetId(vector)), bytes, data))
    return std::nullopt;
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes / size; ++i)
    bits |= uint64_t{std::to_integer<unsigned>(data[(i + 1) * size - 1]) >> 7} << i;
  return bits;
}

// Size in bytes of an element in memory and in the index vector of a scatter.
size_t element_size(const Instruction& instruction, const ZydisDecodedOperand& memory) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU: return 1;
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VPSCATTERDD:
    case ZYDIS_MNEMONIC_VPSCATTERQD:
    case ZYDIS_MNEMONIC_VSCATTERDPS:
    case ZYDIS_MNEMONIC_VSCATTERQPS: return 4;
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPSCATTERDQ:
    case ZYDIS_MNEMONIC_VPSCATTERQQ:
    case ZYDIS_MNEMONIC_VSCATTERDPD:
    case ZYDIS_MNEMONIC_VSCATTERQPD: return 8;
    default: return memory.element_size / 8u;
  }
}
size_t index_size(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VPSCATTERQD:
    case ZYDIS_MNEMONIC_VPSCATTERQQ:
    case ZYDIS_MNEMONIC_VSCATTERQPS:
    case ZYDIS_MNEMONIC_VSCATTERQPD: return 8;
    default: return 4;
  }
}

bool packs(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VPCOMPRESSB:
    case ZYDIS_MNEMONIC_VPCOMPRESSW:
    case ZYDIS_MNEMONIC_VPCOMPRESSD:
    case ZYDIS_MNEMONIC_VPCOMPRESSQ:
    case ZYDIS_MNEMONIC_VCOMPRESSPS:
    case ZYDIS_MNEMONIC_VCOMPRESSPD: return true;
    default: return false;
  }
}

}  // namespace

std::optional<std::vector<std::pair<uint64_t, uint64_t>>> masked_store_ranges(const Instruction& instruction,
                                                                              const ZydisDecodedOperand& memory,
                                                                              const user_regs_struct& registers,
                                                                              std::span<const std::byte> state) {
  const size_t size = element_size(instruction, memory);
  const auto mask = size == 0 ? std::nullopt : mask_of(instruction, size, state);
  if (!mask) return std::nullopt;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  auto add = [&](uint64_t low, uint64_t bytes) { ranges.emplace_back(low, low + bytes); };
  ZydisDecodedOperand base = memory;
  if (memory.mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
    base.mem.index = ZYDIS_REGISTER_NONE;
    const uint64_t low = effective_address(instruction, base, registers);
    const size_t wide = index_size(instruction.decoded.mnemonic);
    const size_t index_bytes = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, memory.mem.index) / 8u,
                 data_bytes = instruction.operand(2).size / 8u;
    std::array<std::byte, 64> indexes;
    if (!vector_register(state, static_cast<unsigned>(ZydisRegisterGetId(memory.mem.index)), index_bytes, indexes))
      return std::nullopt;
    for (size_t i = 0; i < std::min(index_bytes / wide, data_bytes / size); ++i) {
      if (!(*mask >> i & 1)) continue;
      int32_t narrow = 0;
      int64_t index = 0;
      std::memcpy(wide == 4 ? static_cast<void*>(&narrow) : &index, indexes.data() + i * wide, wide);
      if (wide == 4) index = narrow;
      add(low + static_cast<uint64_t>(index) * memory.mem.scale, size);
    }
    return ranges;
  }
  const uint64_t low = effective_address(instruction, base, registers);
  const size_t count = memory.size / 8u / size;
  const uint64_t bits = count < 64 ? *mask & ((uint64_t{1} << count) - 1) : *mask;
  if (packs(instruction.decoded.mnemonic)) {
    add(low, static_cast<uint64_t>(std::popcount(bits)) * size);
    return ranges;
  }
  for (size_t i = 0; i < count; ++i)
    if (bits >> i & 1) add(low + i * size, size);
  return ranges;
}

}  // namespace friday
