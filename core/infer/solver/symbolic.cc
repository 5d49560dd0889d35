#include "core/infer/solver/symbolic.h"

#include <algorithm>

#include "core/infer/solver/check.h"
#include "core/infer/solver/flags.h"

namespace friday::infer {
namespace {

int bits_to_words(int bits) { return std::max(1, bits / 64); }

}  // namespace

void Symbolic::start(const StateShadows& shadows) {
  shadows_ = shadows;
  shadowed_words_ = {};
  for (size_t i = 0; i < shadows_.size(); ++i) {
    if (shadows_[i] != 0) shadowed_words_[i / 512] |= 1ull << (i / 8 % 64);
  }
  decisions_.clear();
  noted_.clear();
  touched_ = 0;
}

void Symbolic::note(Expr holds, Decision::Kind kind, uint64_t address, bool way) {
  if (x_.is_constant(holds, 1) || !noted_.insert(holds).second) return;
  decisions_.push_back({holds, kind, address, way});
}

bool Symbolic::branch(Expr condition, uint64_t address) {
  const bool holds = x_.value(condition) != 0;
  note(holds ? condition : x_.negated(condition), Decision::Kind::branch, address, holds);
  return holds;
}

uint64_t Symbolic::decide(Expr expression, Decision::Kind kind, uint64_t address) {
  const uint64_t value = x_.value(expression);
  if (!x_.is_constant(expression)) note(x_.equal(expression, x_.constant(value, x_.bits(expression))), kind, address);
  return value;
}

void Symbolic::touch(const Step& step) {
  if (last_touched_ == step.instruction) return;
  last_touched_ = step.instruction;
  ++touched_;
}

bool Symbolic::shadowed(const uint64_t* place, int words) const {
  if (!machine_.is_temporary(place)) return false;
  const size_t number = machine_.temporary_number(place);
  return std::any_of(temporaries_.begin() + static_cast<long>(number),
                     temporaries_.begin() + static_cast<long>(number) + words, [](Expr each) { return each != kNone; });
}

void Symbolic::set_word(uint64_t* place, Expr value) {
  *place = x_.value(value);
  Expr& kept = temporaries_[machine_.temporary_number(place)];
  kept = x_.is_constant(value) ? kNone : value;
  if (kept != kNone) set_.push_back(static_cast<uint32_t>(machine_.temporary_number(place)));
}

void Symbolic::assume(const uint64_t* place, int words, Decision::Kind kind) {
  if (!machine_.is_temporary(place)) return;
  for (int i = 0; i < words; ++i) {
    Expr& shadow = temporaries_[machine_.temporary_number(place + i)];
    if (shadow == kNone) continue;
    decide(shadow, kind, address_);
    shadow = kNone;
  }
}

Left Symbolic::run(const Block& block, const Step* step) {
  block_ = &block;
  last_touched_ = -1;
  machine_.left = Left::block;
  while (step != nullptr) {
    address_ = here(*step);
    step = execute(*step);
  }
  for (const uint32_t number : set_) temporaries_[number] = kNone;
  set_.clear();
  return machine_.left;
}

const Step* Symbolic::execute(const Step& step) {
  const auto offset_of = [&](const uint64_t* place) {
    return static_cast<int>(reinterpret_cast<const uint8_t*>(place) -
                            reinterpret_cast<const uint8_t*>(&machine_.state));
  };
  switch (step.does) {
    case Does::operation: return operation(step);
    case Does::choose: return choose(step);
    case Does::get: return get(step, offset_of(step.from[0]), step.number);
    case Does::put: return put(step, offset_of(step.to), step.number, step.from[0]);
    case Does::get_indexed: return indexed(step, false);
    case Does::put_indexed: return indexed(step, true);
    case Does::load: return load(step, step.number);
    case Does::store: return store(step, step.number);
    case Does::load_if: return load_if(step);
    case Does::store_if:
      if (shadowed(step.from[2], 1)) {
        touch(step);
        branch(x_.extract(word(step.from[2]), 0, 1), address_);
      }
      return (*step.from[2] & 1) == 0 ? &step + 1 : store(step, step.number);
    case Does::compare_swap: return compare_swap(step);
    case Does::call: return call(step);
    case Does::dirty: return dirty(step);
    case Does::leave_if:
      if (shadowed(step.from[0], 1)) {
        touch(step);
        branch(x_.extract(word(step.from[0]), 0, 1), address_);
      }
      return step.execute(step, machine_);
    case Does::leave: return leave(step);
  }
  return step.execute(step, machine_);
}

const Step* Symbolic::leave(const Step& step) {
  if (shadowed(step.from[0], 1)) {
    touch(step);
    decide(word(step.from[0]), Decision::Kind::choice, address_);
  }
  return step.execute(step, machine_);
}

// Division by zero, and quotients that do not fit, are faults: notes that there is none.
bool Symbolic::excludes_bad_division(const Step& step, IROp op) {
  const auto noted = [&](Expr holds) {
    if (x_.value(holds) == 0) return false;
    note(holds, Decision::Kind::branch, address_);
    return true;
  };
  const bool wide = op == Iop_DivModU128to64 || op == Iop_DivModS128to64;
  const bool is_signed = op == Iop_DivModS64to32 || op == Iop_DivModS128to64;
  const int width = wide ? 64 : 32;
  const Expr by = x_.extract(word(step.from[1]), 0, width);
  if (!noted(x_.negated(x_.equal(by, x_.constant(0, width))))) return false;
  const Expr low = word(step.from[0]);
  if (!is_signed) return noted(x_.unsigned_less(wide ? word(step.from[0] + 1) : x_.extract(low, 32, 32), by));
  if (!wide) {
    const Expr quotient = x_.divide(Op::signed_divide, low, x_.sign_extend(by, 64));
    const Expr smallest_by_minus_one =
        x_.both(x_.equal(low, x_.constant(1ull << 63, 64)), x_.equal(by, x_.constant(~0ull, 32)));
    return noted(x_.negated(smallest_by_minus_one)) &&
           noted(x_.equal(quotient, x_.sign_extend(x_.extract(quotient, 0, 32), 64)));
  }
  // Compilers divide numbers of 64 bits only, which are sign-extended; others are assumed to be what they are.
  const Expr high = word(step.from[0] + 1);
  const Expr extended = x_.shift(Op::shift_right_signed, low, x_.constant(63, 64));
  if (high != extended) {
    assume(step.from[0], 2);
    assume(step.from[1], 1);
    return true;
  }
  const Expr smallest_by_minus_one =
      x_.both(x_.equal(low, x_.constant(1ull << 63, 64)), x_.equal(by, x_.constant(~0ull, 64)));
  return noted(x_.negated(smallest_by_minus_one));
}

const Step* Symbolic::operation(const Step& step) {
  const auto op = static_cast<IROp>(Iop_INVALID + step.number);
  const Signature& signature = signature_of(op);
  bool any = false;
  for (int i = 0; i < signature.count; ++i) any = any || shadowed(step.from[i], bits_to_words(signature.operands[i]));
  if (!any) return step.execute(step, machine_);
  touch(step);
  const bool divides =
      op == Iop_DivModU64to32 || op == Iop_DivModS64to32 || op == Iop_DivModU128to64 || op == Iop_DivModS128to64;
  if (divides && !excludes_bad_division(step, op)) return step.execute(step, machine_);  // which stops there
  std::array<Words, 4> operands{};
  for (int i = 0; i < signature.count; ++i) {
    for (int w = 0; w < bits_to_words(signature.operands[i]); ++w)
      operands[static_cast<size_t>(i)][static_cast<size_t>(w)] = word(step.from[i] + w);
  }
  Words result{};
  if (!apply_operation(x_, op, operands, &result)) {
    for (int i = 0; i < signature.count; ++i) assume(step.from[i], bits_to_words(signature.operands[i]));
    return step.execute(step, machine_);
  }
  const Step* next = step.execute(step, machine_);
  if (next == nullptr) return next;
  for (int w = 0; w < step.words; ++w) {
    const Expr made = result[static_cast<size_t>(w)];
    require(x_.value(made) == step.to[w], "an operation on expressions gives something else than on numbers");
    set_word(step.to + w, made);
  }
  return next;
}

const Step* Symbolic::choose(const Step& step) {
  const bool either = shadowed(step.from[1], step.words) || shadowed(step.from[2], step.words);
  if (!either && !shadowed(step.from[0], 1)) return step.execute(step, machine_);
  touch(step);
  const Expr condition = x_.extract(word(step.from[0]), 0, 1);
  for (int w = 0; w < step.words; ++w)
    set_word(step.to + w, x_.choose(condition, word(step.from[1] + w), word(step.from[2] + w)));
  return &step + 1;
}

void Symbolic::mark_state(int offset, int bytes) {
  for (int number = offset / 8; number <= (offset + bytes - 1) / 8; ++number) {
    const auto first = static_cast<size_t>(number) * 8;
    const size_t end = std::min(first + 8, shadows_.size());
    const bool any = std::any_of(shadows_.begin() + static_cast<long>(first), shadows_.begin() + static_cast<long>(end),
                                 [](Shadow s) { return s != 0; });
    uint64_t& word = shadowed_words_[static_cast<size_t>(number) / 64];
    const uint64_t bit = 1ull << (number % 64);
    word = any ? word | bit : word & ~bit;
  }
}

// At most 8 bytes, the lowest first, with zeros above; none if no byte has a shadow.
Expr Symbolic::gathered(const Shadow* shadows, const uint8_t* bytes, int count) {
  if (std::all_of(shadows, shadows + count, [](Shadow s) { return s == 0; })) return kNone;
  Expr built = kNone;
  for (int i = 0; i < count;) {
    int run = 1;
    Expr piece;
    if (shadows[i] == 0) {
      piece = x_.constant(bytes[i], 8);
    } else {
      const int from = byte_of(shadows[i]);
      while (i + run < count && shadows[i + run] == shadow_of(expression_of(shadows[i]), from + run) && from + run < 8)
        ++run;
      piece = x_.extract(expression_of(shadows[i]), 8 * from, 8 * run);
    }
    built = built == kNone ? piece : x_.concat(piece, built);
    i += run;
  }
  return x_.zero_extend(built, 64);
}

// The shadow of a byte of a value: whole pieces of it stay whole.
Shadow Symbolic::shadow_of_byte(Expr value, int byte) {
  int low = 8 * byte;
  for (;;) {
    const Node& node = x_.node(value);
    if (node.op != Op::concat) break;
    const int split = x_.bits(node.b);
    if (low >= split) {
      value = node.a;
      low -= split;
    } else if (low + 8 <= split) {
      value = node.b;
    } else {
      break;
    }
  }
  const Node& node = x_.node(value);
  if (node.op == Op::constant) return 0;
  if (low % 8 == 0 && node.op != Op::concat && low + 8 <= node.bits) return shadow_of(value, low / 8);
  const Expr part = x_.extract(value, low, 8);
  return x_.is_constant(part) ? 0 : shadow_of(part, 0);
}

Expr Symbolic::register_at(int offset, int bytes) {
  const auto* state = reinterpret_cast<const uint8_t*>(&machine_.state) + offset;
  Expr value = gathered(&shadows_[static_cast<size_t>(offset)], state, bytes);
  if (value == kNone) {
    uint64_t plain = 0;
    std::memcpy(&plain, state, static_cast<size_t>(bytes));
    value = x_.constant(plain, 64);
  }
  return x_.extract(value, 0, 8 * bytes);
}

void Symbolic::set_register(int offset, Expr value) {
  const int bytes = x_.bits(value) / 8;
  const uint64_t plain = x_.value(value);
  std::memcpy(reinterpret_cast<uint8_t*>(&machine_.state) + offset, &plain, static_cast<size_t>(bytes));
  for (int i = 0; i < bytes; ++i) state_shadow(offset + i) = shadow_of_byte(value, i);
  mark_state(offset, bytes);
}

void Symbolic::forget_register(int offset, int bytes) {
  std::fill_n(shadows_.begin() + offset, bytes, 0);
  mark_state(offset, bytes);
}

const Step* Symbolic::get(const Step& step, int offset, int bytes) {
  step.execute(step, machine_);
  const auto* state = reinterpret_cast<const uint8_t*>(&machine_.state) + offset;
  for (int w = 0; 8 * w < bytes; ++w) {
    const Expr value = gathered(&state_shadow(offset + 8 * w), state + 8 * w, std::min(8, bytes - 8 * w));
    if (value == kNone) continue;
    touch(step);
    set_word(step.to + w, value);
  }
  return &step + 1;
}

const Step* Symbolic::put(const Step& step, int offset, int bytes, const uint64_t* from) {
  step.execute(step, machine_);
  for (int w = 0; 8 * w < bytes; ++w) {
    const Expr value = temporary(from + w);
    const int count = std::min(8, bytes - 8 * w);
    if (value != kNone) touch(step);
    for (int i = 0; i < count; ++i) state_shadow(offset + 8 * w + i) = value == kNone ? 0 : shadow_of_byte(value, i);
  }
  mark_state(offset, bytes);
  return &step + 1;
}

// Registers of the x87 stack, which are numbered from its top on.
const Step* Symbolic::indexed(const Step& step, bool is_put) {
  assume(step.from[0], 1);
  const auto& array = *static_cast<const Indexed*>(step.extra);
  const auto offset =
      static_cast<int>(machine_.element(array, *step.from[0]) - reinterpret_cast<uint8_t*>(&machine_.state));
  return is_put ? put(step, offset, array.element, step.from[1]) : get(step, offset, array.element);
}

// Helpers of VEX that look at their arguments only.
const Step* Symbolic::call(const Step& step) {
  const auto& call = *static_cast<const Call*>(step.extra);
  const bool any = std::any_of(call.arguments.begin(), call.arguments.end(),
                               [&](const auto& argument) { return shadowed(argument.second, 1); });
  if (!any) return step.execute(step, machine_);
  touch(step);
  const Expr made = known_call(call);
  if (made == kNone) {
    for (const auto& argument : call.arguments) assume(argument.second, 1);
    return step.execute(step, machine_);
  }
  const Step* next = step.execute(step, machine_);
  require(x_.value(made) == *step.to, "a helper on expressions gives something else than on numbers");
  set_word(step.to, made);
  return next;
}

Expr Symbolic::known_call(const Call& call) {
  const std::string_view name = call.name;
  if (name.starts_with("amd64g_calc_crc32")) return linear_call(call);
  const bool condition = name == "amd64g_calculate_condition";
  if (!condition && name != "amd64g_calculate_rflags_c" && name != "amd64g_calculate_rflags_all") return kNone;
  // The arguments: the condition, and the thunk. Which operation set the flags depends on symbols only where a shift's
  // amount does.
  const size_t first = condition ? 1 : 0;
  for (size_t i = 0; i <= first; ++i) assume(call.arguments[i].second, 1, Decision::Kind::choice);
  const Thunk thunk{*call.arguments[first].second, word(call.arguments[first + 1].second),
                    word(call.arguments[first + 2].second), word(call.arguments[first + 3].second)};
  if (name == "amd64g_calculate_rflags_c") return carry_of(x_, thunk);
  if (!condition) return all_flags_of(x_, thunk);
  const Expr holds = condition_of(x_, *call.arguments[0].second, thunk);
  return holds == kNone ? kNone : x_.zero_extend(holds, 64);
}

// The crc32 instructions: each bit of an argument flips the same bits of the result, whatever the others are.
Expr Symbolic::linear_call(const Call& call) {
  using Helper = uint64_t (*)(uint64_t, uint64_t);
  const auto helper = reinterpret_cast<Helper>(const_cast<void*>(call.function));
  Expr sum = x_.constant(0, 64);
  for (size_t i = 0; i < 2; ++i) {
    const Expr argument = word(call.arguments[i].second);
    for (int bit = 0; bit < 64; ++bit) {
      const Expr one = x_.extract(argument, bit, 1);
      if (x_.is_constant(one, 0)) continue;
      const uint64_t flips = i == 0 ? helper(1ull << bit, 0) : helper(0, 1ull << bit);
      sum = x_.bitwise(Op::bit_xor, sum, x_.choose(one, x_.constant(flips, 64), x_.constant(0, 64)));
    }
  }
  return sum;
}

// Helpers that look at the guest state or at memory (x87, AES, string instructions of SSE4.2, saving and restoring)
// compute with plain values.
const Step* Symbolic::dirty(const Step& step) {
  const auto& call = *static_cast<const Call*>(step.extra);
  if (call.guard != nullptr && shadowed(call.guard, 1)) branch(x_.extract(word(call.guard), 0, 1), address_);
  for (const auto& [kind, place] : call.arguments) {
    if (kind == Call::Argument::value) assume(place, 1);
  }
  for (const Call::Part& part : call.parts) {
    if (!part.read) continue;
    for (int at = 0; at < part.bytes; at += 8) {
      const int count = std::min(8, part.bytes - at);
      decide(register_at(part.offset + at, count), Decision::Kind::assumption, address_);
    }
  }
  if (call.address != nullptr) {
    assume(call.address, 1);
    for (int i = 0; i < call.bytes; ++i) {
      const uint64_t at = *call.address + static_cast<uint64_t>(i);
      if (memory_.shadow_at(at) == 0) continue;
      decide(byte_at(at), Decision::Kind::assumption, address_);
      memory_.set_shadow(at, 0);
    }
  }
  const Step* next = step.execute(step, machine_);
  if (next == nullptr) return next;
  for (const Call::Part& part : call.parts) forget_register(part.offset, part.bytes);
  return next;
}

}  // namespace friday::infer
