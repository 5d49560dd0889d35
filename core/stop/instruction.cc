#include "core/stop/instruction.h"

#include <algorithm>

#include "core/stop/registers.h"

namespace friday {

namespace {

const ZydisDecoder& decoder() {
  static const ZydisDecoder instance = [] {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return decoder;
  }();
  return instance;
}

}  // namespace

std::optional<Instruction> decode_instruction(Addr address, std::span<const std::byte> bytes) {
  Instruction result;
  result.address = address.value;
  std::copy_n(bytes.begin(), std::min(bytes.size(), max_instruction_length), result.bytes.begin());
  ZyanStatus status = ZydisDecoderDecodeFull(&decoder(), bytes.data(), std::min(bytes.size(), max_instruction_length),
                                             &result.decoded, result.operands.data());
  if (!ZYAN_SUCCESS(status)) return std::nullopt;
  return result;
}

uint64_t effective_address(const Instruction& instruction, const ZydisDecodedOperand& operand,
                           const user_regs_struct& registers) {
  const ZydisDecodedOperandMem& mem = operand.mem;
  uint64_t address = mem.disp.has_displacement ? static_cast<uint64_t>(mem.disp.value) : 0;
  if (mem.base == ZYDIS_REGISTER_RIP || mem.base == ZYDIS_REGISTER_EIP) {
    address += instruction.next();
  } else if (mem.base != ZYDIS_REGISTER_NONE) {
    address += read_register(registers, mem.base).value_or(0);
  }
  if (mem.index != ZYDIS_REGISTER_NONE) address += read_register(registers, mem.index).value_or(0) * mem.scale;
  if (instruction.decoded.address_width == 32) address = static_cast<uint32_t>(address);
  if (mem.segment == ZYDIS_REGISTER_FS) address += registers.fs_base;
  if (mem.segment == ZYDIS_REGISTER_GS) address += registers.gs_base;
  return address;
}

const ZydisDecodedOperand* rip_operand(const Instruction& instruction) {
  for (unsigned i = 0; i < instruction.decoded.operand_count; ++i) {
    const ZydisDecodedOperand& operand = instruction.operand(i);
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
        (operand.mem.base == ZYDIS_REGISTER_RIP || operand.mem.base == ZYDIS_REGISTER_EIP))
      return &operand;
  }
  return nullptr;
}

std::optional<bool> branch_taken(const Instruction& instruction, uint64_t eflags) {
  bool cf = eflags & 1, pf = eflags & 4, zf = eflags & 0x40, sf = eflags & 0x80, of = eflags & 0x800;
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_JO: return of;
    case ZYDIS_MNEMONIC_JNO: return !of;
    case ZYDIS_MNEMONIC_JB: return cf;
    case ZYDIS_MNEMONIC_JNB: return !cf;
    case ZYDIS_MNEMONIC_JZ: return zf;
    case ZYDIS_MNEMONIC_JNZ: return !zf;
    case ZYDIS_MNEMONIC_JBE: return cf || zf;
    case ZYDIS_MNEMONIC_JNBE: return !cf && !zf;
    case ZYDIS_MNEMONIC_JS: return sf;
    case ZYDIS_MNEMONIC_JNS: return !sf;
    case ZYDIS_MNEMONIC_JP: return pf;
    case ZYDIS_MNEMONIC_JNP: return !pf;
    case ZYDIS_MNEMONIC_JL: return sf != of;
    case ZYDIS_MNEMONIC_JNL: return sf == of;
    case ZYDIS_MNEMONIC_JLE: return zf || sf != of;
    case ZYDIS_MNEMONIC_JNLE: return !zf && sf == of;
    default: return std::nullopt;
  }
}

bool repeats(const Instruction& instruction) {
  constexpr auto any = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  return (instruction.decoded.attributes & any) != 0;
}

bool only_computes(const Instruction& instruction) {
  switch (instruction.decoded.meta.category) {
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP: return false;
    default: break;
  }
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_INT3: return false;
    default: return true;
  }
}

}  // namespace friday
