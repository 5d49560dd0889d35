#include "core/stop/effects.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "core/stop/instruction.h"

namespace friday {
namespace {

constexpr size_t kInstructions = 4000;  // a longer function is not analysed
constexpr int64_t kFrame = 2048;        // bytes around the stack pointer that count as the function's own frame

// The effects of C library functions, from ISO C (7.4, 7.22, 7.24) and the GNU C library manual. A function with an end
// pointer stores through its second argument unless that is null.
struct Documented {
  std::string_view name;
  bool sets_errno = false, has_end_pointer = false;
};
constexpr Documented kDocumented[] = {
    {"strlen"},
    {"strnlen"},
    {"strcmp"},
    {"strncmp"},
    {"strcasecmp"},
    {"strncasecmp"},
    {"strchr"},
    {"strrchr"},
    {"strchrnul"},
    {"strstr"},
    {"strspn"},
    {"strcspn"},
    {"strpbrk"},
    {"memcmp"},
    {"bcmp"},
    {"memchr"},
    {"memrchr"},
    {"rawmemchr"},
    {"memmem"},
    {"abs"},
    {"labs"},
    {"llabs"},
    {"isalnum"},
    {"isalpha"},
    {"isdigit"},
    {"islower"},
    {"isupper"},
    {"isspace"},
    {"isxdigit"},
    {"ispunct"},
    {"isprint"},
    {"isgraph"},
    {"iscntrl"},
    {"tolower"},
    {"toupper"},
    {"__ctype_b_loc"},
    {"__ctype_tolower_loc"},
    {"__ctype_toupper_loc"},
    {"htonl"},
    {"htons"},
    {"ntohl"},
    {"ntohs"},
    {"atoi", true},
    {"atol", true},
    {"atoll", true},
    {"strtol", true, true},
    {"strtoll", true, true},
    {"strtoul", true, true},
    {"strtoull", true, true},
    {"__isoc23_strtol", true, true},
    {"__isoc23_strtoll", true, true},
    {"__isoc23_strtoul", true, true},
    {"__isoc23_strtoull", true, true},
};

class Reader {
 public:
  Reader(NodeControl& node, const LibcFunction& libc_function) : node_(node), libc_function_(libc_function) {}

  FunctionEffects run(uint64_t function) {
    functions_.push_back(function);
    for (size_t i = 0; i < functions_.size(); i++)
      if (!read_function(functions_[i])) {
        FunctionEffects unknown;
        unknown.final = final_;
        return unknown;
      }
    return {true, {stores_.begin(), stores_.end()}, sets_errno_, true};
  }

 private:
  // Whether rbp holds the address of the frame from the prologue to the end of the function.
  bool keeps_frame(uint64_t at) {
    std::optional<Instruction> code = decode(at);
    if (code && code->decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64) code = decode(code->next());
    if (!code || code->decoded.mnemonic != ZYDIS_MNEMONIC_PUSH || code->operand(0).reg.value != ZYDIS_REGISTER_RBP)
      return false;
    code = decode(code->next());
    return code && code->decoded.mnemonic == ZYDIS_MNEMONIC_MOV &&
           code->operand(0).type == ZYDIS_OPERAND_TYPE_REGISTER && code->operand(0).reg.value == ZYDIS_REGISTER_RBP &&
           code->operand(1).type == ZYDIS_OPERAND_TYPE_REGISTER && code->operand(1).reg.value == ZYDIS_REGISTER_RSP;
  }

  bool read_function(uint64_t entry) {
    frame_ = keeps_frame(entry);
    nulls_.clear();
    std::set<uint64_t> seen, targets;
    std::vector<uint64_t> work{entry};
    while (!work.empty()) {
      uint64_t at = work.back();
      work.pop_back();
      null_since_.reset();
      while (seen.insert(at).second) {
        if (++read_ > kInstructions) return false;
        auto code = decode(at);
        if (!code || !is_harmless(*code)) return false;
        const auto target = target_of(*code);
        const auto category = code->decoded.meta.category;
        if (category == ZYDIS_CATEGORY_RET) break;
        const bool jumps = category == ZYDIS_CATEGORY_UNCOND_BR;
        if (category == ZYDIS_CATEGORY_CALL || jumps) {
          if (const auto slot = slot_of(*code, target)) {
            if (!read_library_call(*slot, at)) return false;
            if (jumps) break;  // a tail call
          } else if (!target) {
            return false;
          } else if (jumps) {
            targets.insert(*target);
            at = *target;
            null_since_.reset();
            continue;
          } else if (known_.insert(*target).second) {
            functions_.push_back(*target);
          }
          null_since_.reset();
        } else if (category == ZYDIS_CATEGORY_COND_BR) {
          if (!target) return false;
          work.push_back(*target);
          targets.insert(*target);
        }
        note_second_argument(*code);
        at = code->next();
      }
    }
    // The second argument is null at those calls only if no jump leads to a place between the two instructions.
    return std::ranges::none_of(
        nulls_, [&](const auto& each) { return targets.upper_bound(each.first) != targets.upper_bound(each.second); });
  }

  // The slot of the global offset table that a call or jump uses, either itself or through an entry of the
  // procedure linkage table.
  std::optional<uint64_t> slot_of(const Instruction& code, std::optional<uint64_t> target) {
    if (!target) return slot_of(code);
    auto entry = decode(*target);
    if (entry && entry->decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64) entry = decode(entry->next());
    if (!entry || entry->decoded.meta.category != ZYDIS_CATEGORY_UNCOND_BR) return std::nullopt;
    return slot_of(*entry);
  }
  static std::optional<uint64_t> slot_of(const Instruction& code) {
    const auto& operand = code.operand(0);
    if (code.decoded.operand_count_visible == 0 || operand.type != ZYDIS_OPERAND_TYPE_MEMORY ||
        operand.mem.base != ZYDIS_REGISTER_RIP)
      return std::nullopt;
    return code.next() + static_cast<uint64_t>(operand.mem.disp.value);
  }

  bool read_library_call(uint64_t slot, uint64_t at) {
    const auto name = libc_function_(slot);
    final_ = final_ && (name || !awaits_binding(slot));
    const auto found = std::ranges::find(kDocumented, name.value_or(""), &Documented::name);
    if (!name || found == std::end(kDocumented)) return false;
    sets_errno_ = sets_errno_ || found->sets_errno;
    if (!found->has_end_pointer) return true;
    if (!null_since_) return false;
    nulls_.emplace_back(*null_since_, at);
    return true;
  }

  // Until its first call, a slot of the global offset table points back to its entry of the procedure linkage table,
  // which pushes the slot's number.
  bool awaits_binding(uint64_t slot) {
    uint64_t bound = 0;
    if (!node_.read(Addr{slot}, std::as_writable_bytes(std::span(&bound, 1)))) return false;
    auto code = decode(bound);
    if (code && code->decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64) code = decode(code->next());
    return code && code->decoded.mnemonic == ZYDIS_MNEMONIC_PUSH &&
           code->operand(0).type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  }

  // Tracks whether the register of the second argument (rsi) holds a null pointer.
  void note_second_argument(const Instruction& code) {
    for (unsigned i = 0; i < code.decoded.operand_count; i++) {
      const auto& operand = code.operand(i);
      if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER || !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
      if (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand.reg.value) != ZYDIS_REGISTER_RSI)
        continue;
      const bool whole = operand.size >= 32;  // a 32-bit write clears the upper half too
      const auto& source = code.operand(1);
      const bool cleared = code.decoded.mnemonic == ZYDIS_MNEMONIC_XOR && source.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                           source.reg.value == operand.reg.value;
      const bool loaded = code.decoded.mnemonic == ZYDIS_MNEMONIC_MOV && source.type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
                          source.imm.value.u == 0;
      if (whole && (cleared || loaded)) null_since_ = code.address;
      else null_since_.reset();
      return;
    }
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
    if (code.decoded.operand_count_visible == 0 || operand.type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
        !operand.imm.is_relative)
      return std::nullopt;
    return code.next() + static_cast<uint64_t>(operand.imm.value.s);
  }

  // Whether the instruction is plain computation without effects beyond its operands.
  static bool is_plain(const Instruction& code) {
    if (!only_computes(code) || code.decoded.mnemonic == ZYDIS_MNEMONIC_ENTER) return false;
    switch (code.decoded.meta.category) {
      case ZYDIS_CATEGORY_STRINGOP:
      case ZYDIS_CATEGORY_XSAVE:
      case ZYDIS_CATEGORY_XSAVEOPT:
      case ZYDIS_CATEGORY_SEGOP:
      case ZYDIS_CATEGORY_RDWRFSGS:
      case ZYDIS_CATEGORY_SCATTER: return false;
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
    if (memory.segment == ZYDIS_REGISTER_FS || memory.segment == ZYDIS_REGISTER_GS ||
        memory.index != ZYDIS_REGISTER_NONE)
      return false;
    const int64_t away = memory.disp.has_displacement ? memory.disp.value : 0;
    if (memory.base == ZYDIS_REGISTER_RSP || (memory.base == ZYDIS_REGISTER_RBP && frame_))
      return away > -kFrame && away < kFrame;
    const uint64_t size = operand.size / 8;
    if (memory.base != ZYDIS_REGISTER_RIP || size == 0) return false;
    stores_.insert({code.next() + static_cast<uint64_t>(away), size});
    return true;
  }

  // Whether the stack pointer changes by small constants only and a frame pointer remains one.
  bool register_is_kept(const Instruction& code, ZydisRegister written) const {
    const auto widest = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, written);
    const auto mnemonic = code.decoded.mnemonic;
    const bool saves = mnemonic == ZYDIS_MNEMONIC_PUSH || mnemonic == ZYDIS_MNEMONIC_POP ||
                       mnemonic == ZYDIS_MNEMONIC_CALL || mnemonic == ZYDIS_MNEMONIC_RET ||
                       mnemonic == ZYDIS_MNEMONIC_LEAVE;
    if (widest == ZYDIS_REGISTER_RSP) {
      const bool moves = mnemonic == ZYDIS_MNEMONIC_SUB || mnemonic == ZYDIS_MNEMONIC_ADD;
      if (mnemonic == ZYDIS_MNEMONIC_LEAVE) return frame_;
      return saves || (moves && code.operand(1).type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
                       code.operand(1).imm.value.s < kFrame && code.operand(1).imm.value.s > -kFrame);
    }
    if (widest != ZYDIS_REGISTER_RBP || !frame_ || saves) return true;
    return mnemonic == ZYDIS_MNEMONIC_MOV && code.operand(1).type == ZYDIS_OPERAND_TYPE_REGISTER &&
           code.operand(1).reg.value == ZYDIS_REGISTER_RSP;
  }

  NodeControl& node_;
  const LibcFunction& libc_function_;
  // Address of the instruction that set the second argument to null, if the code since then is straight.
  std::optional<uint64_t> null_since_;
  // In this function: (such an instruction, a call that needs the argument to be null).
  std::vector<std::pair<uint64_t, uint64_t>> nulls_;
  bool sets_errno_ = false, final_ = true;
  std::vector<uint64_t> functions_;
  std::set<uint64_t> known_;
  std::set<std::pair<uint64_t, uint64_t>> stores_;
  size_t read_ = 0;
  bool frame_ = false;
};

}  // namespace

FunctionEffects effects_of(NodeControl& node, Addr function, const LibcFunction& libc_function) {
  return Reader(node, libc_function).run(function.value);
}

}  // namespace friday
