#include "core/stop/pad.h"

#include <cstring>
#include <limits>

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
    case ZYDIS_MNEMONIC_UD2:
      return true;
    default: break;
  }
  bool branch = decoded.meta.category == ZYDIS_CATEGORY_CALL || decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
                decoded.meta.category == ZYDIS_CATEGORY_COND_BR;
  return branch && (decoded.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || decoded.operand_width == 16);
}

class PadWriter {
 public:
  explicit PadWriter(uint64_t base) : base_(base) {}

  uint64_t here() const { return base_ + pad_.code.size(); }
  void means(uint64_t program) { pad_.meaning.emplace_back(pad_.code.size(), program); }
  void bytes(std::span<const std::byte> data) { pad_.code.insert(pad_.code.end(), data.begin(), data.end()); }
  void bytes(std::initializer_list<uint8_t> data) {
    for (uint8_t byte : data) pad_.code.push_back(std::byte{byte});
  }
  template <typename T>
  void number(T value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  // jmp *0(%rip) with the target behind it: reaches everywhere and changes no register.
  void jump(uint64_t target) {
    means(target);
    bytes({0xff, 0x25, 0, 0, 0, 0});
    number(target);
  }
  // The instruction itself, its rip-relative displacement made to mean the same from here.
  bool relocated(const Instruction& instruction) {
    size_t at = pad_.code.size();
    int64_t moved = static_cast<int64_t>(instruction.address - here());
    bytes(instruction.code());
    const ZydisDecodedOperand* operand = rip_operand(instruction);
    return !operand || set_displacement(at + instruction.decoded.raw.disp.offset, operand->mem.disp.value + moved);
  }
  bool set_displacement(size_t at, int64_t value) {
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) return false;
    auto narrow = static_cast<int32_t>(value);
    std::memcpy(pad_.code.data() + at, &narrow, sizeof narrow);
    return true;
  }
  void flip(size_t at, std::byte bits) { pad_.code[at] ^= bits; }
  size_t size() const { return pad_.code.size(); }
  PadCode finish() { return std::move(pad_); }

 private:
  uint64_t base_;
  PadCode pad_;
};

uint64_t branch_target(const Instruction& instruction) {
  return instruction.next() + static_cast<uint64_t>(instruction.operand(0).imm.value.s);
}

// call TARGET  ->  push RETURN; jmp *TARGET. The push is that of the call: the same page faults, the same order.
bool write_call(PadWriter& pad, const Instruction& instruction) {
  size_t push_at = pad.size();
  pad.bytes({0xff, 0x35, 0, 0, 0, 0});  // pushq disp(%rip): the return address stands at the end of the pad
  size_t push_end = pad.size();
  const ZydisDecodedOperand& operand = instruction.operand(0);
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    pad.jump(branch_target(instruction));
  } else {
    bool on_stack = operand.type == ZYDIS_OPERAND_TYPE_MEMORY
                        ? operand.mem.base == ZYDIS_REGISTER_RSP || operand.mem.base == ZYDIS_REGISTER_ESP
                        : operand.reg.value == ZYDIS_REGISTER_RSP;
    if (on_stack) return false;  // the push would have moved it
    size_t at = pad.size();
    if (!pad.relocated(instruction)) return false;
    pad.flip(at + instruction.decoded.raw.modrm.offset, std::byte{0x30});  // ff /2 (call) -> ff /4 (jmp)
  }
  pad.set_displacement(push_at + 2, static_cast<int64_t>(pad.size() - push_end));
  pad.number(instruction.next());
  return true;
}

// loop, loope, loopne, jrcxz exist only with an 8-bit offset: it skips the jump to the next instruction.
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
    case ZYDIS_MNEMONIC_JECXZ:
      write_short_branch(pad, instruction);
      break;
    default:
      if (!pad.relocated(instruction)) return std::nullopt;
      pad.jump(instruction.next());
  }
  return pad.finish();
}

}  // namespace friday
