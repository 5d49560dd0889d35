#include "core/record/loops.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "core/shim/shim_abi.h"

namespace friday {
namespace {

constexpr uint8_t kJump = 5;  // size in bytes of the jump that replaces a window
constexpr uint32_t kArithmetic =
    ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;

struct Step {
  uint64_t address;
  ZydisDecodedInstruction in;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> all;
  std::span<const ZydisDecodedOperand> operands() const { return {all.data(), in.operand_count}; }
  uint64_t next() const { return address + in.length; }
  bool branches() const {
    return in.meta.category == ZYDIS_CATEGORY_COND_BR || in.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
  }
  uint64_t target() const { return next() + static_cast<uint64_t>(in.raw.imm[0].value.s); }
};

bool reads(const ZydisDecodedOperand& o) { return o.actions & ZYDIS_OPERAND_ACTION_MASK_READ; }
bool writes(const ZydisDecodedOperand& o) { return o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE; }
bool is_memory(const ZydisDecodedOperand& o) {
  return o.type == ZYDIS_OPERAND_TYPE_MEMORY && o.mem.type != ZYDIS_MEMOP_TYPE_AGEN;
}

bool same_place(const ZydisDecodedOperand& a, const ZydisDecodedOperand& b) {
  return a.mem.segment == b.mem.segment && a.mem.base == b.mem.base && a.mem.index == b.mem.index &&
         (a.mem.index == ZYDIS_REGISTER_NONE || a.mem.scale == b.mem.scale) && a.mem.disp.value == b.mem.disp.value;
}

// The number of the general register that `reg` is a part of.
std::optional<unsigned> general(ZydisRegister reg) {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64) return std::nullopt;
  return static_cast<unsigned>(ZydisRegisterGetId(whole));
}

// What the loop's own instructions do to a value. `steady`: it is the same in each iteration unless another thread
// stores. `waits`: a store by another thread could change it.
struct Value {
  bool steady = true, waits = false;
  void add(const Value& other) { steady &= other.steady, waits |= other.waits; }
};

class Loop {
 public:
  Loop(const ZydisDecoder& decoder, std::string_view code, uint64_t low) : low_(low), high_(low + code.size()) {
    for (uint64_t at = 0; at < code.size();) {
      auto step = decode(decoder, code.substr(at), low + at);
      if (!step || !plain(*step)) return;
      at += step->in.length;
      steps_.push_back(*step);
    }
    known_ = !steps_.empty();
  }

  // The instructions from the `pause` at `low` on, as far as they are plain and do not branch.
  static Loop from_pause(const ZydisDecoder& decoder, std::string_view code, uint64_t low) {
    Loop loop;
    for (uint64_t at = 0; at < code.size();) {
      auto step = decode(decoder, code.substr(at), low + at);
      if (!step || step->branches() || !(at == 0 || plain(*step))) break;
      at += step->in.length;
      loop.steps_.push_back(*step);
    }
    return loop;
  }

  bool may_wait() {
    if (!known_) return false;
    std::array<bool, 16> written{};
    for (const Step& step : steps_)
      for (const auto& o : step.operands())
        if (auto r = o.type == ZYDIS_OPERAND_TYPE_REGISTER && writes(o) ? general(o.reg.value) : std::nullopt)
          written[*r] = true;
    for (unsigned r = 0; r < 16; r++) registers_[r].steady = !written[r];
    flags_.steady = false;
    return walk() || walk();  // the second pass starts with the register values that the first one ended with
  }

  std::vector<LoopWindow> windows(bool jumps_unknown) const {
    // Every iteration executes the instructions before the first branch, and those between the last branch target and
    // the end.
    size_t first = 0, last = steps_.size() - 1;
    while (!steps_[first].branches()) first++;
    while (last > 0 && !steps_[last - 1].branches() && !is_target(steps_[last].address)) last--;
    std::vector<LoopWindow> found;
    for (bool single : {true, false}) {
      if (!single && jumps_unknown) break;
      for (size_t i = 0; i < steps_.size(); i++) {
        if (i >= first && i < last) continue;
        if (auto window = window_at(i, single)) found.push_back(*window);
      }
    }
    return found;
  }

  std::optional<LoopWindow> window_at(size_t i, bool single) const {
    if (i >= steps_.size()) return std::nullopt;
    LoopWindow window{steps_[i].address, 0, 0};
    for (size_t k = i; k < steps_.size() && window.length < kJump; k++) {
      uint8_t displacement;
      if (!moves(steps_[k], displacement) || (displacement && window.displacement)) return std::nullopt;
      if (displacement) window.displacement = static_cast<uint8_t>(window.length + displacement);
      window.length = static_cast<uint8_t>(window.length + steps_[k].in.length);
      if (single) break;
    }
    if (window.length < kJump || window.length > sizeof(shim::Patch::original) || !flags_free(i)) return std::nullopt;
    return window;
  }

 private:
  Loop() = default;

  static std::optional<Step> decode(const ZydisDecoder& decoder, std::string_view code, uint64_t address) {
    Step step;
    step.address = address;
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &step.in, step.all.data())))
      return std::nullopt;
    for (auto& o : std::span(step.all).first(step.in.operand_count))
      if (is_memory(o) && o.mem.base == ZYDIS_REGISTER_RIP)
        o.mem.disp.value += static_cast<int64_t>(step.next());  // as an absolute address, for comparisons
    return step;
  }

  static bool plain(const Step& step) {
    switch (step.in.meta.category) {
      case ZYDIS_CATEGORY_CALL:
      case ZYDIS_CATEGORY_RET:
      case ZYDIS_CATEGORY_SYSCALL:
      case ZYDIS_CATEGORY_INTERRUPT:
      case ZYDIS_CATEGORY_SYSTEM: return false;
      default: break;
    }
    if (step.branches()) return step.in.raw.imm[0].is_relative;
    switch (step.in.mnemonic) {
      case ZYDIS_MNEMONIC_PAUSE:
      case ZYDIS_MNEMONIC_CPUID:
      case ZYDIS_MNEMONIC_RDTSC:
      case ZYDIS_MNEMONIC_RDTSCP:
      case ZYDIS_MNEMONIC_RDRAND:
      case ZYDIS_MNEMONIC_RDSEED:
      case ZYDIS_MNEMONIC_TPAUSE:
      case ZYDIS_MNEMONIC_UMWAIT:
      case ZYDIS_MNEMONIC_XBEGIN:
      case ZYDIS_MNEMONIC_UD2: return false;
      default: return true;
    }
  }

  bool is_target(uint64_t address) const {
    return std::ranges::any_of(steps_, [&](const Step& s) { return s.branches() && s.target() == address; });
  }

  bool stored_to(const ZydisDecodedOperand& place) const {
    for (const Step& step : steps_)
      for (const auto& o : step.operands())
        if (is_memory(o) && writes(o) && same_place(o, place)) return true;
    return false;
  }

  Value value_of(ZydisRegister reg) const {
    if (reg == ZYDIS_REGISTER_NONE || reg == ZYDIS_REGISTER_RIP) return {};
    const auto r = general(reg);
    return r ? registers_[*r] : Value{false, false};
  }

  Value value_of(const Step& step, const ZydisDecodedOperand& o) const {
    if (o.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      if (ZydisRegisterGetClass(o.reg.value) == ZYDIS_REGCLASS_FLAGS) return flags_;
      return value_of(o.reg.value);
    }
    if (o.type != ZYDIS_OPERAND_TYPE_MEMORY) return {};
    Value address = value_of(o.mem.base);
    address.add(value_of(o.mem.index));
    if (!is_memory(o) || !address.steady) return address;
    const bool exchanges =
        writes(o) && (step.in.mnemonic == ZYDIS_MNEMONIC_XCHG || step.in.attributes & ZYDIS_ATTRIB_HAS_LOCK);
    if (!exchanges && stored_to(o)) return {false, false};
    const auto base = general(o.mem.base);
    const bool local =
        base &&
        (*base == 4 || (*base == 5 && o.mem.disp.value < 0));  // relative to rsp, or to rbp if that points at a frame
    const bool own = o.mem.segment == ZYDIS_REGISTER_FS || o.mem.segment == ZYDIS_REGISTER_GS;
    return {true, address.waits || (!local && !own)};
  }

  // True if the loop has an exit that depends only on steady values, one of which another thread could change.
  bool walk() {
    for (const Step& step : steps_) {
      if (step.branches()) {
        const bool leaves = step.target() < low_ || step.target() >= high_ || &step == &steps_.back();
        if (step.in.meta.category == ZYDIS_CATEGORY_COND_BR && leaves && flags_.steady && flags_.waits) return true;
        continue;
      }
      Value result;
      for (const auto& o : step.operands())
        if (reads(o)) result.add(value_of(step, o));
      const auto &first = step.all[0], &second = step.all[1];
      const bool clears = (step.in.mnemonic == ZYDIS_MNEMONIC_XOR || step.in.mnemonic == ZYDIS_MNEMONIC_SUB) &&
                          first.type == ZYDIS_OPERAND_TYPE_REGISTER && second.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                          first.reg.value == second.reg.value;
      if (clears) result = {};
      for (const auto& o : step.operands()) {
        if (o.type != ZYDIS_OPERAND_TYPE_REGISTER || !writes(o)) continue;
        if (ZydisRegisterGetClass(o.reg.value) == ZYDIS_REGCLASS_FLAGS) flags_ = result;
        else if (auto r = general(o.reg.value)) registers_[*r] = result;
      }
    }
    return false;
  }

  // Whether the instruction has the same effect at another address. `displacement` receives the offset of its
  // rip-relative displacement, if it has one.
  static bool moves(const Step& step, uint8_t& displacement) {
    displacement = 0;
    if (step.branches() || step.in.mnemonic == ZYDIS_MNEMONIC_ENDBR64) return false;
    for (const auto& o : step.operands()) {
      if (is_memory(o) && writes(o)) return false;
      if (o.type == ZYDIS_OPERAND_TYPE_REGISTER && writes(o) && general(o.reg.value) == 4u) return false;  // rsp
      if (o.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
      if (o.mem.base == ZYDIS_REGISTER_EIP) return false;
      if (o.mem.base == ZYDIS_REGISTER_RIP) displacement = step.in.raw.disp.offset;
    }
    return !(step.in.attributes & ZYDIS_ATTRIB_IS_RELATIVE) || displacement;
  }

  // Whether the flags are dead before instruction `i`: in straight-line code, all are written before any is read.
  bool flags_free(size_t i) const {
    for (; i < steps_.size() && !steps_[i].branches(); i++) {
      const auto* flags = steps_[i].in.cpu_flags;
      if (flags && flags->tested & kArithmetic) return false;
      switch (steps_[i].in.mnemonic) {
        case ZYDIS_MNEMONIC_ADD:
        case ZYDIS_MNEMONIC_SUB:
        case ZYDIS_MNEMONIC_CMP:
        case ZYDIS_MNEMONIC_TEST:
        case ZYDIS_MNEMONIC_AND:
        case ZYDIS_MNEMONIC_OR:
        case ZYDIS_MNEMONIC_XOR:
        case ZYDIS_MNEMONIC_NEG:
        case ZYDIS_MNEMONIC_CMPXCHG:
        case ZYDIS_MNEMONIC_XADD: return true;
        case ZYDIS_MNEMONIC_PUSHFQ:
        case ZYDIS_MNEMONIC_PUSHF:
        case ZYDIS_MNEMONIC_LAHF: return false;
        default: break;
      }
    }
    return false;
  }

  uint64_t low_ = 0, high_ = 0;
  bool known_ = false;
  std::vector<Step> steps_;
  std::array<Value, 16> registers_{};
  Value flags_;
};

}  // namespace

std::vector<LoopWindow> loop_windows(const ZydisDecoder& decoder, std::string_view code, uint64_t low,
                                     bool jumps_unknown) {
  Loop loop(decoder, code, low);
  return loop.may_wait() ? loop.windows(jumps_unknown) : std::vector<LoopWindow>();
}

std::optional<LoopWindow> pause_window(const ZydisDecoder& decoder, std::string_view code, uint64_t low) {
  return Loop::from_pause(decoder, code, low).window_at(0, false);
}

}  // namespace friday
