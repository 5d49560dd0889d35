#include "core/record/loops.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "core/shim/shim_abi.h"

namespace friday {
namespace {

constexpr uint8_t kJump = 5;           // size in bytes of the jump that replaces a window
constexpr uint8_t kCallOpcode = 0xe8;  // of a call to an address relative to the instruction
constexpr unsigned kRegisters = 16;    // general ones
constexpr uint8_t kRax = 0, kRsp = 4, kRbp = 5;
// The registers that a function need not keep (System V ABI for AMD64, section 3.2.1).
constexpr unsigned kLostByCalls[] = {kRax, 1, 2, 6, 7, 8, 9, 10, 11};
constexpr uint32_t kArithmetic =
    ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;

struct Step {
  uint64_t address;
  ZydisDecodedInstruction in;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> all;
  std::span<const ZydisDecodedOperand> operands() const { return {all.data(), in.operand_count}; }
  bool each_iteration = false;
  uint64_t next() const { return address + in.length; }
  bool branches() const {
    return in.meta.category == ZYDIS_CATEGORY_COND_BR || in.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
  }
  bool calls() const { return in.meta.category == ZYDIS_CATEGORY_CALL; }
  bool calls_directly() const { return calls() && in.opcode == kCallOpcode && in.length == kJump; }
  bool returns() const { return in.meta.category == ZYDIS_CATEGORY_RET; }
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
// stores, or a function that the loop calls. `waits`: such a store could change it. `far`: one outside the stack.
// `given`: it is the result of a function, of which nothing is known, or stands where that points.
struct Value {
  bool steady = true, waits = false, far = false, given = false;
  unsigned origin =
      0;  // the place that held it when the iteration began, if it has only been moved since; 0: not known
  void add(const Value& other) {
    steady &= other.steady, waits |= other.waits, far |= other.far, given |= other.given;
    origin = 0;
  }
};

// The conditions under which a loop ends. `waits`: there is one that depends on steady values only, of which one waits;
// `waits_for_others`: and is far. `moves`: there is one that depends on another value, such as a counter.
struct Exits {
  bool waits = false, waits_for_others = false, moves = false;
};

class Loop {
 public:
  Loop(const ZydisDecoder& decoder, std::span<const LoopCode> code) : code_(code) {
    for (const LoopCode& part : code) {
      size_ += part.bytes.size();
      for (uint64_t at = 0; at < part.bytes.size();) {
        auto step = decode(decoder, part.bytes.substr(at), part.low + at);
        if (!step || !plain(*step)) return;
        at += step->in.length;
        step->each_iteration = part.each_iteration;
        calls_ = calls_ || step->calls();
        steps_.push_back(*step);
      }
    }
    known_ = !steps_.empty();
  }

  // The instructions from the `pause` at `low` on, as far as they are plain and neither branch nor call.
  static Loop from_pause(const ZydisDecoder& decoder, std::string_view code, uint64_t low) {
    Loop loop;
    for (uint64_t at = 0; at < code.size();) {
      auto step = decode(decoder, code.substr(at), low + at);
      if (!step || step->branches() || step->calls() || step->returns() || !(at == 0 || plain(*step))) break;
      at += step->in.length;
      loop.steps_.push_back(*step);
    }
    return loop;
  }

  bool may_wait() {
    if (!known_) return false;
    std::array<bool, kRegisters> written{};
    for (const Step& step : steps_) {
      if (step.calls()) {
        for (const unsigned r : kLostByCalls) written[r] = true;
        continue;  // the address that it pushes is popped when it returns
      }
      for (const auto& o : step.operands()) {
        if (is_memory(o) && writes(o) && !stored(o)) stores_.push_back({o, carried(kRegisters + stores_.size())});
        if (auto r = o.type == ZYDIS_OPERAND_TYPE_REGISTER && writes(o) ? general(o.reg.value) : std::nullopt)
          written[*r] = true;
      }
    }
    for (unsigned r = 0; r < kRegisters; r++)
      if (written[r]) registers_[r] = carried(r);
    flags_.steady = false;
    (void)walk();
    // The next pass starts with the values that this one ended with. What has its old value again is steady.
    for (unsigned r = 0; r < kRegisters; r++)
      if (written[r]) begin_again(registers_[r], r, {});
    for (unsigned i = 0; i < stores_.size(); i++) begin_again(stores_[i].value, kRegisters + i, {true, true, true});
    const Exits exits = walk();
    // A loop that something else ends in any case does not wait. Of short loops without a call, those count as well
    // that wait for memory of others for a limited number of times: they may stand in a loop that has no limit.
    return exits.waits && (!exits.moves || (exits.waits_for_others && size_ <= kLongestPlainLoop && !calls_));
  }

  LoopSites sites(bool jumps_unknown) const {
    LoopSites found{.size = size_};
    for (const Step& step : steps_)
      if (step.calls_directly())
        (step.each_iteration ? found.windows : found.calls).push_back({step.address, step.in.length, 0});
    for (bool single : {true, false}) {
      if (!single && jumps_unknown) break;
      for (size_t i = 0; i < steps_.size(); i++)
        if (auto window = steps_[i].each_iteration ? window_at(i, single) : std::nullopt)
          found.windows.push_back(*window);
    }
    return found;
  }

  std::optional<LoopWindow> window_at(size_t i, bool single) const {
    if (i >= steps_.size()) return std::nullopt;
    LoopWindow window{steps_[i].address, 0, 0};
    for (size_t k = i; k < steps_.size() && window.length < kJump; k++) {
      uint8_t displacement;
      if (k > i && !follows(k)) return std::nullopt;
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
      case ZYDIS_CATEGORY_SYSCALL:
      case ZYDIS_CATEGORY_INTERRUPT:
      case ZYDIS_CATEGORY_SYSTEM: return false;
      default: break;
    }
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

  // Whether the step `i` stands behind the one before it and is executed whenever that one is.
  bool follows(size_t i) const { return steps_[i - 1].next() == steps_[i].address && !is_start(steps_[i].address); }
  bool is_start(uint64_t address) const { return std::ranges::binary_search(code_, address, {}, &LoopCode::low); }

  // A place in memory that the loop stores to, and what is known of the value there.
  struct Stored {
    ZydisDecodedOperand place;
    Value value;
  };
  Stored* stored(const ZydisDecodedOperand& place) {
    const auto it = std::ranges::find_if(stores_, [&](const Stored& each) { return same_place(each.place, place); });
    return it == stores_.end() ? nullptr : &*it;
  }

  // What a place holds that the loop changes, when an iteration begins. Places are the registers and `stores_`.
  static Value carried(size_t place) { return {.steady = false, .origin = static_cast<unsigned>(place) + 1}; }
  static void begin_again(Value& value, unsigned place, Value unchanged) {
    if (value.origin == place + 1) value = unchanged;
    value.origin = 0;
  }

  Value value_of(ZydisRegister reg) const {
    if (reg == ZYDIS_REGISTER_NONE || reg == ZYDIS_REGISTER_RIP) return {};
    const auto r = general(reg);
    return r ? registers_[*r] : Value{false, false};
  }

  Value value_of(const Step& step, const ZydisDecodedOperand& o) {
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
    if (const Stored* known = exchanges ? nullptr : stored(o)) return known->value;
    const bool own = o.mem.segment == ZYDIS_REGISTER_FS || o.mem.segment == ZYDIS_REGISTER_GS;
    const auto base = general(o.mem.base);
    // relative to rsp, or to rbp if that points at a frame
    const bool local = base && (*base == kRsp || (*base == kRbp && o.mem.disp.value < 0));
    return {true, address.waits || calls_ || !own, address.far || (!local && !own), address.given};
  }

  // Whether the loop only compares what the call at `from` returns. If it does more with that, it goes through
  // something.
  bool only_compares(size_t from) const {
    for (size_t i = (from + 1) % steps_.size(); !steps_[i].calls(); i = (i + 1) % steps_.size()) {
      bool used = false, written = false;
      for (const auto& o : steps_[i].operands()) {
        const bool is_register = o.type == ZYDIS_OPERAND_TYPE_REGISTER;
        const auto in = [](ZydisRegister r) { return r != ZYDIS_REGISTER_NONE && general(r) == kRax; };
        used = used || (is_register ? reads(o) && in(o.reg.value)
                                    : o.type == ZYDIS_OPERAND_TYPE_MEMORY && (in(o.mem.base) || in(o.mem.index)));
        written = written || (is_register && writes(o) && in(o.reg.value));
      }
      const ZydisMnemonic what = steps_[i].in.mnemonic;
      if (used && what != ZYDIS_MNEMONIC_TEST && what != ZYDIS_MNEMONIC_CMP) return false;
      if (written) break;
    }
    return true;
  }

  // What a function returns is taken to be the same as long as nobody stores, and it may store to all memory.
  void call(size_t i) {
    for (const unsigned r : kLostByCalls) registers_[r] = {false, false};
    registers_[kRax] = {true, true, true, !only_compares(i)};
    flags_ = {false, false};
    for (Stored& each : stores_)
      if (each.value.steady) each.value.waits = each.value.far = true;
  }

  void execute(const Step& step) {
    Value result;
    const bool moves = step.in.mnemonic == ZYDIS_MNEMONIC_MOV;
    for (const auto& o : step.operands())
      if (reads(o)) moves ? void(result = value_of(step, o)) : result.add(value_of(step, o));
    const auto &first = step.all[0], &second = step.all[1];
    const bool clears = (step.in.mnemonic == ZYDIS_MNEMONIC_XOR || step.in.mnemonic == ZYDIS_MNEMONIC_SUB) &&
                        first.type == ZYDIS_OPERAND_TYPE_REGISTER && second.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                        first.reg.value == second.reg.value;
    if (clears) result = {};
    for (const auto& o : step.operands()) {
      if (!writes(o)) continue;
      if (is_memory(o)) {
        if (Stored* to = stored(o)) to->value = result;
      } else if (o.type == ZYDIS_OPERAND_TYPE_REGISTER) {
        if (ZydisRegisterGetClass(o.reg.value) == ZYDIS_REGCLASS_FLAGS) flags_ = result;
        else if (auto r = general(o.reg.value)) registers_[*r] = result;
      }
    }
  }

  Exits walk() {
    Exits exits;
    for (size_t i = 0; i < steps_.size(); i++) {
      const Step& step = steps_[i];
      if (step.branches()) {
        const bool conditional = step.in.meta.category == ZYDIS_CATEGORY_COND_BR && step.in.raw.imm[0].is_relative;
        if (!conditional || (is_start(step.target()) && is_start(step.next()))) continue;
        if (flags_.given) continue;
        exits.moves = exits.moves || !flags_.steady;
        exits.waits = exits.waits || (flags_.steady && flags_.waits);
        exits.waits_for_others = exits.waits_for_others || (flags_.steady && flags_.far);
      } else if (step.calls()) {
        call(i);
      } else if (!step.returns()) {
        execute(step);
      }
    }
    return exits;
  }

  // Whether the instruction has the same effect at another address. `displacement` receives the offset of its
  // rip-relative displacement, if it has one.
  static bool moves(const Step& step, uint8_t& displacement) {
    displacement = 0;
    if (step.branches() || step.in.mnemonic == ZYDIS_MNEMONIC_ENDBR64) return false;
    for (const auto& o : step.operands()) {
      if (is_memory(o) && writes(o)) return false;
      if (o.type == ZYDIS_OPERAND_TYPE_REGISTER && writes(o) && general(o.reg.value) == kRsp) return false;
      if (o.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
      if (o.mem.base == ZYDIS_REGISTER_EIP) return false;
      if (o.mem.base == ZYDIS_REGISTER_RIP) displacement = step.in.raw.disp.offset;
    }
    return !(step.in.attributes & ZYDIS_ATTRIB_IS_RELATIVE) || displacement;
  }

  // Whether the flags are dead before instruction `i`: in straight-line code, all are written before any is read.
  bool flags_free(size_t i) const {
    for (const size_t from = i; i < steps_.size() && !steps_[i].branches() && (i == from || follows(i)); i++) {
      const auto* flags = steps_[i].in.cpu_flags;
      if (flags && flags->tested & kArithmetic) return false;
      if (steps_[i].calls()) return true;  // functions take no flags
      if (steps_[i].returns()) return false;
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

  std::span<const LoopCode> code_;
  uint64_t size_ = 0;  // in bytes
  bool known_ = false, calls_ = false;
  std::vector<Step> steps_;
  std::vector<Stored> stores_;
  std::array<Value, kRegisters> registers_{};
  Value flags_;
};

}  // namespace

LoopSites loop_sites(const ZydisDecoder& decoder, std::span<const LoopCode> code, bool jumps_unknown) {
  Loop loop(decoder, code);
  return loop.may_wait() ? loop.sites(jumps_unknown) : LoopSites();
}

std::optional<LoopWindow> pause_window(const ZydisDecoder& decoder, std::string_view code, uint64_t low) {
  return Loop::from_pause(decoder, code, low).window_at(0, false);
}

}  // namespace friday
