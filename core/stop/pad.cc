#include "core/stop/pad.h"

#include "core/stop/pad_writer.h"

namespace friday {

namespace {

bool must_stay(const Instruction& instruction) {
  const auto& decoded = instruction.decoded;
  switch (decoded.mnemonic) {
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_UD2: return true;
    default: break;
  }
  bool branch = decoded.meta.category == ZYDIS_CATEGORY_CALL || decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
                decoded.meta.category == ZYDIS_CATEGORY_COND_BR;
  return branch && (decoded.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || decoded.operand_width == 16);
}

uint64_t branch_target(const Instruction& instruction) {
  return instruction.next() + static_cast<uint64_t>(instruction.operand(0).imm.value.s);
}

// Rewrites `call TARGET` as `push RETURN; jmp *TARGET`. The push faults on the same pages and in the same order as the
// call.
bool write_call(PadWriter& pad, const Instruction& instruction) {
  size_t push_at = pad.size();
  pad.bytes({0xff, 0x35, 0, 0, 0, 0});  // pushq disp(%rip); the return address is stored at the end of the pad
  size_t push_end = pad.size();
  const ZydisDecodedOperand& operand = instruction.operand(0);
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    pad.jump(branch_target(instruction));
  } else {
    bool on_stack = operand.type == ZYDIS_OPERAND_TYPE_MEMORY
                        ? operand.mem.base == ZYDIS_REGISTER_RSP || operand.mem.base == ZYDIS_REGISTER_ESP
                        : operand.reg.value == ZYDIS_REGISTER_RSP;
    if (on_stack) return false;  // the push has already changed the operand's base register
    size_t at = pad.size();
    if (!pad.relocated(instruction)) return false;
    pad.flip(at + instruction.decoded.raw.modrm.offset, std::byte{0x30});  // ff /2 (call) -> ff /4 (jmp)
  }
  pad.set_displacement(push_at + 2, static_cast<int64_t>(pad.size() - push_end));
  pad.number(instruction.next());
  return true;
}

// loop, loope, loopne and jrcxz have only an 8-bit offset: here it skips the jump to the next instruction.
void write_short_branch(PadWriter& pad, const Instruction& instruction) {
  pad.bytes(instruction.code().first(instruction.decoded.length - 1u));
  constexpr uint8_t jump_length = 14;
  pad.bytes({jump_length});
  pad.jump(instruction.next());
  pad.jump(branch_target(instruction));
}

}  // namespace

std::optional<PadCode> build_pad(const Instruction& instruction, Addr base) {
  if (must_stay(instruction)) return std::nullopt;
  PadWriter pad(base.value);
  pad.means(instruction.address);
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_CALL:
      if (!write_call(pad, instruction)) return std::nullopt;
      break;
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JECXZ: write_short_branch(pad, instruction); break;
    default:
      if (!pad.relocated(instruction)) return std::nullopt;
      pad.jump(instruction.next());
  }
  return pad.finish();
}

}  // namespace friday
