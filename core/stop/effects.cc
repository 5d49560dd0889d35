#include "core/stop/effects.h"

#include <array>
#include <optional>
#include <set>

#include "core/stop/instruction.h"

namespace friday {
namespace {

constexpr size_t kInstructions = 4000;  // more than this is no small function
constexpr int64_t kFrame = 2048;        // bytes around the stack pointer that count as the function's own

class Reader {
 public:
  explicit Reader(NodeControl& node) : node_(node) {}

  FunctionEffects run(uint64_t function) {
    functions_.push_back(function);
    for (size_t i = 0; i < functions_.size(); i++)
      if (!read_function(functions_[i])) return {};
    return {true, {stores_.begin(), stores_.end()}};
  }

 private:
  // Whether rbp holds a frame's address from the first instructions on to the end of the function.
  bool keeps_frame(uint64_t at) {
    std::optional<Instruction> code = decode(at);
    if (code && code->decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64) code = decode(code->next());
    if (!code || code->decoded.mnemonic != ZYDIS_MNEMONIC_PUSH || code->operand(0).reg.value != ZYDIS_REGISTER_RBP) return false;
    code = decode(code->next());
    return code && code->decoded.mnemonic == ZYDIS_MNEMONIC_MOV && code->operand(0).type == ZYDIS_OPERAND_TYPE_REGISTER &&
           code->operand(0).reg.value == ZYDIS_REGISTER_RBP && code->operand(1).type == ZYDIS_OPERAND_TYPE_REGISTER &&
           code->operand(1).reg.value == ZYDIS_REGISTER_RSP;
  }

  bool read_function(uint64_t entry) {
    frame_ = keeps_frame(entry);
    std::set<uint64_t> seen;
    std::vector<uint64_t> work{entry};
    while (!work.empty()) {
      uint64_t at = work.back();
      work.pop_back();
      while (seen.insert(at).second) {
        if (++read_ > kInstructions) return false;
        auto code = decode(at);
        if (!code || !is_harmless(*code)) return false;
        const auto target = target_of(*code);
        const auto category = code->decoded.meta.category;
        if (category == ZYDIS_CATEGORY_RET) break;
        if (category == ZYDIS_CATEGORY_CALL) {
          if (!target) return false;
          if (known_.insert(*target).second) functions_.push_back(*target);
        } else if (category == ZYDIS_CATEGORY_UNCOND_BR) {
          if (!target) return false;
          at = *target;
          continue;
        } else if (category == ZYDIS_CATEGORY_COND_BR) {
          if (!target) return false;
          work.push_back(*target);
        }
        at = code->next();
      }
    }
    return true;
  }

  std::optional<Instruction> decode(uint64_t at) {
    std::array<std::byte, max_instruction_length> bytes;
    size_t size = std::min<uint64_t>(bytes.size(), 4096 - (at & 4095));
    if (!node_.read(Addr{at}, std::span(bytes).first(size))) return std::nullopt;
    auto code = decode_instruction(Addr{at}, std::span(bytes).first(size));
    if (code || size == bytes.size() || !node_.read(Addr{at}, bytes)) return code;
    return decode_instruction(Addr{at}, bytes);
  }

  static std::optional<uint64_t> target_of(const Instruction& code) {
    const auto& operand = code.operand(0);
    if (code.decoded.operand_count_visible == 0 || operand.type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !operand.imm.is_relative) return std::nullopt;
    return code.next() + static_cast<uint64_t>(operand.imm.value.s);
  }

  // Only instructions of the kinds that plain computation is made of.
  static bool is_plain(const Instruction& code) {
    if (!only_computes(code) || code.decoded.mnemonic == ZYDIS_MNEMONIC_ENTER) return false;
    switch (code.decoded.meta.category) {
      case ZYDIS_CATEGORY_STRINGOP: case ZYDIS_CATEGORY_XSAVE: case ZYDIS_CATEGORY_XSAVEOPT: case ZYDIS_CATEGORY_SEGOP:
      case ZYDIS_CATEGORY_RDWRFSGS: case ZYDIS_CATEGORY_SCATTER:
        return false;
      default: return true;
    }
  }

  bool is_harmless(const Instruction& code) {
    if (!is_plain(code)) return false;
    for (unsigned i = 0; i < code.decoded.operand_count; i++) {
      const auto& operand = code.operand(i);
      if (!(operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
      if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY && !store_is_known(code, operand)) return false;
      if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && !register_is_kept(code, operand.reg.value)) return false;
    }
    return true;
  }

  bool store_is_known(const Instruction& code, const ZydisDecodedOperand& operand) {
    const auto& memory = operand.mem;
    if (memory.segment == ZYDIS_REGISTER_FS || memory.segment == ZYDIS_REGISTER_GS || memory.index != ZYDIS_REGISTER_NONE) return false;
    const int64_t away = memory.disp.has_displacement ? memory.disp.value : 0;
    if (memory.base == ZYDIS_REGISTER_RSP || (memory.base == ZYDIS_REGISTER_RBP && frame_)) return away > -kFrame && away < kFrame;
    const uint64_t size = operand.size / 8;
    if (memory.base != ZYDIS_REGISTER_RIP || size == 0) return false;
    stores_.insert({code.next() + static_cast<uint64_t>(away), size});
    return true;
  }

  // The stack pointer moves by small constants only, and a frame pointer stays one.
  bool register_is_kept(const Instruction& code, ZydisRegister written) const {
    const auto widest = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, written);
    const auto mnemonic = code.decoded.mnemonic;
    const bool saves = mnemonic == ZYDIS_MNEMONIC_PUSH || mnemonic == ZYDIS_MNEMONIC_POP || mnemonic == ZYDIS_MNEMONIC_CALL ||
                       mnemonic == ZYDIS_MNEMONIC_RET || mnemonic == ZYDIS_MNEMONIC_LEAVE;
    if (widest == ZYDIS_REGISTER_RSP) {
      const bool moves = mnemonic == ZYDIS_MNEMONIC_SUB || mnemonic == ZYDIS_MNEMONIC_ADD;
      if (mnemonic == ZYDIS_MNEMONIC_LEAVE) return frame_;
      return saves || (moves && code.operand(1).type == ZYDIS_OPERAND_TYPE_IMMEDIATE && code.operand(1).imm.value.s < kFrame && code.operand(1).imm.value.s > -kFrame);
    }
    if (widest != ZYDIS_REGISTER_RBP || !frame_ || saves) return true;
    return mnemonic == ZYDIS_MNEMONIC_MOV && code.operand(1).type == ZYDIS_OPERAND_TYPE_REGISTER && code.operand(1).reg.value == ZYDIS_REGISTER_RSP;
  }

  NodeControl& node_;
  std::vector<uint64_t> functions_;
  std::set<uint64_t> known_;
  std::set<std::pair<uint64_t, uint64_t>> stores_;
  size_t read_ = 0;
  bool frame_ = false;
};

}  // namespace

FunctionEffects effects_of(NodeControl& node, Addr function) { return Reader(node).run(function.value); }

}  // namespace friday
