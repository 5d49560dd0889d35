// How expressions are built: what is known of the operands decides which simpler expression means the same. Arithmetic,
// shifts, comparisons and choices are here; what takes apart and puts together is in pieces.cc.
#include <bit>

#include "core/infer/solver/expression.h"

namespace friday::infer {
namespace {

constexpr int kDeepest = 6;  // how far down it is looked, so that building stays linear in long chains

// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the number of right bits.
uint64_t inverse_of(uint64_t odd) {
  uint64_t inverse = odd;
  for (int step = 0; step < 6; ++step) inverse *= 2 - odd * inverse;
  return inverse;
}

}  // namespace

// If both operands are constants, what the operation gives.
bool Expressions::fold(Op op, int bits, Expr a, Expr b, Expr* folded) {
  if (!is_constant(a) || !is_constant(b)) return false;
  *folded =
      constant(apply({op, static_cast<uint8_t>(bits), a, b, kNone, 0}, constant_value(a), constant_value(b), 0), bits);
  return true;
}

// Bits of `a` that are 0 whatever the symbols are, as far as its outermost pieces tell.
uint64_t Expressions::zeros(Expr a, int depth) {
  const Node node = nodes_[a];
  if (node.op == Op::constant) return ~node.number & mask_of(node.bits);
  if (depth == 0) return 0;
  switch (node.op) {
    case Op::concat: return zeros(node.a, depth - 1) << bits(node.b) | zeros(node.b, depth - 1);
    case Op::bit_and: return zeros(node.a, depth - 1) | zeros(node.b, depth - 1);
    case Op::bit_or:
    case Op::bit_xor: return zeros(node.a, depth - 1) & zeros(node.b, depth - 1);
    case Op::choose: return zeros(node.b, depth - 1) & zeros(node.c, depth - 1);
    default: return 0;
  }
}

int Expressions::leading_zeros(Expr a) {
  const int width = bits(a);
  return std::countl_one(zeros(a, kDeepest) << (64 - width) | (width < 64 ? mask_of(64 - width) : 0));
}

Expr Expressions::add(Expr a, Expr b) {
  const int width = bits(a);
  if (Expr folded; fold(Op::add, width, a, b, &folded)) return folded;
  if (is_constant(a) || (!is_constant(b) && a > b)) std::swap(a, b);
  const Node left = nodes_[a], right = nodes_[b];
  if (is_constant(b, 0)) return a;
  if (width == 1) return bitwise(Op::bit_xor, a, b);
  if (right.op == Op::constant) {
    if (left.op == Op::add && is_constant(left.b))
      return add(left.a, constant(constant_value(left.b) + right.number, width));
    if (left.op == Op::sub && is_constant(left.a))
      return sub(constant(constant_value(left.a) + right.number, width), left.b);
  } else {  // constants go outwards
    if (left.op == Op::add && is_constant(left.b)) return add(add(left.a, b), left.b);
    if (right.op == Op::add && is_constant(right.b)) return add(add(a, right.a), right.b);
  }
  if (right.op == Op::sub && is_constant(right.a, 0)) return sub(a, right.b);
  if (left.op == Op::sub && is_constant(left.a, 0)) return sub(b, left.b);
  if (left.op == Op::sub && left.b == b) return left.a;
  if (right.op == Op::sub && right.b == a) return right.a;
  if ((zeros(a, kDeepest) | zeros(b, kDeepest)) == mask_of(width)) return bitwise(Op::bit_or, a, b);
  if (a == b) return shift(Op::shift_left, a, constant(1, width));
  return make(Op::add, width, a, b);
}

Expr Expressions::sub(Expr a, Expr b) {
  const int width = bits(a);
  if (Expr folded; fold(Op::sub, width, a, b, &folded)) return folded;
  if (a == b) return constant(0, width);
  if (is_constant(b)) return add(a, constant(0 - constant_value(b), width));
  if (width == 1) return bitwise(Op::bit_xor, a, b);
  const Node left = nodes_[a], right = nodes_[b];
  if (left.op == Op::add && left.b == b) return left.a;
  if (left.op == Op::add && left.a == b) return left.b;
  if (left.op == Op::add && is_constant(left.b)) return add(sub(left.a, b), left.b);
  if (right.op == Op::add && is_constant(right.b))
    return add(sub(a, right.a), constant(0 - constant_value(right.b), width));
  if (right.op == Op::sub && is_constant(right.a))
    return add(add(a, right.b), constant(0 - constant_value(right.a), width));
  return make(Op::sub, width, a, b);
}

Expr Expressions::mul(Expr a, Expr b) {
  const int width = bits(a);
  if (Expr folded; fold(Op::mul, width, a, b, &folded)) return folded;
  if (is_constant(a) || (!is_constant(b) && a > b)) std::swap(a, b);
  if (is_constant(b)) {
    const uint64_t by = constant_value(b);
    if (by == 0) return b;
    if (by == 1) return a;
    if (std::has_single_bit(by))
      return shift(Op::shift_left, a, constant(static_cast<uint64_t>(std::countr_zero(by)), width));
    const Node left = nodes_[a];
    if (left.op == Op::mul && is_constant(left.b)) return mul(left.a, constant(constant_value(left.b) * by, width));
  }
  return make(Op::mul, width, a, b);
}

Expr Expressions::mul_high(Op op, Expr a, Expr b) {
  if (Expr folded; fold(op, 64, a, b, &folded)) return folded;
  if (is_constant(a) || (!is_constant(b) && a > b)) std::swap(a, b);
  const int zeros_together = leading_zeros(a) + leading_zeros(b);
  if (zeros_together > 64 || (op == Op::mul_high_unsigned && zeros_together == 64)) return constant(0, 64);
  return make(op, 64, a, b);
}

Expr Expressions::divide(Op op, Expr a, Expr b) {
  const int width = bits(a);
  if (Expr folded; fold(op, width, a, b, &folded)) return folded;
  if ((op == Op::signed_divide || op == Op::signed_modulo) && leading_zeros(a) > 0 && leading_zeros(b) > 0) {
    op = op == Op::signed_divide ? Op::unsigned_divide : Op::unsigned_modulo;
  }
  if (is_constant(b) && std::has_single_bit(constant_value(b))) {
    const int exponent = std::countr_zero(constant_value(b));
    if (op == Op::unsigned_divide) return shift(Op::shift_right, a, constant(static_cast<uint64_t>(exponent), width));
    if (op == Op::unsigned_modulo) return masked(a, mask_of(exponent));
  }
  if (op == Op::unsigned_divide || op == Op::unsigned_modulo) {  // numbers that are narrower divide faster
    const int needed = std::max(1, width - std::min(leading_zeros(a), leading_zeros(b)));
    if (needed < width) return zero_extend(divide(op, extract(a, 0, needed), extract(b, 0, needed)), width);
  }
  return make(op, width, a, b);
}

Expr Expressions::divide_wide(Op op, Expr high, Expr low, Expr by) {
  const bool quotient = op == Op::wide_unsigned_divide || op == Op::wide_signed_divide;
  if (op == Op::wide_unsigned_divide || op == Op::wide_unsigned_modulo) {
    if (is_constant(high, 0)) return divide(quotient ? Op::unsigned_divide : Op::unsigned_modulo, low, by);
  } else if (high == shift(Op::shift_right_signed, low, constant(63, 64))) {
    return divide(quotient ? Op::signed_divide : Op::signed_modulo, low, by);
  }
  const Node node{op, 64, high, low, by, 0};
  if (is_constant(high) && is_constant(low) && is_constant(by)) {
    return constant(apply(node, constant_value(high), constant_value(low), constant_value(by)), 64);
  }
  return insert(node);
}

Expr Expressions::shift(Op op, Expr a, Expr amount) {
  const int width = bits(a);
  if (Expr folded; fold(op, width, a, amount, &folded)) return folded;
  if (is_constant(a, 0)) return a;
  if (!is_constant(amount)) return make(op, width, a, amount);
  const uint64_t by = constant_value(amount);
  if (by == 0) return a;
  const int whole = static_cast<int>(std::min<uint64_t>(by, static_cast<uint64_t>(width)));
  if (op == Op::shift_right_signed) {
    if (whole == width) return sign_extend(sign_bit(a), width);
    return sign_extend(extract(a, whole, width - whole), width);
  }
  if (whole == width) return constant(0, width);
  if (op == Op::shift_left) return concat(extract(a, 0, width - whole), constant(0, whole));
  return zero_extend(extract(a, whole, width - whole), width);
}

Expr Expressions::equal(Expr a, Expr b) {
  if (Expr folded; fold(Op::equal, 1, a, b, &folded)) return folded;
  if (a == b) return constant(1, 1);
  if (is_constant(a) || (!is_constant(b) && a > b)) std::swap(a, b);
  if (is_constant(b)) return equal_constant(a, constant_value(b));
  const int width = bits(a);
  if (width == 1) return negated(bitwise(Op::bit_xor, a, b));
  const Node left = nodes_[a], right = nodes_[b];
  if (left.op == Op::concat || right.op == Op::concat) {
    const int low = bits(left.op == Op::concat ? left.b : right.b);
    return both(equal(extract(a, low, width - low), extract(b, low, width - low)),
                equal(extract(a, 0, low), extract(b, 0, low)));
  }
  if (left.op == Op::sign_extend && right.op == Op::sign_extend && bits(left.a) == bits(right.a))
    return equal(left.a, right.a);
  if ((left.op == Op::add || left.op == Op::bit_xor) && left.op == right.op) {
    if (left.a == right.a) return equal(left.b, right.b);
    if (left.b == right.b) return equal(left.a, right.a);
  }
  return make(Op::equal, 1, a, b);
}

Expr Expressions::equal_constant(Expr a, uint64_t value) {
  const Node node = nodes_[a];
  const auto constant_of = [&](Expr part) { return nodes_[part].number; };
  if (node.bits == 1) return value != 0 ? a : negated(a);
  switch (node.op) {
    case Op::concat: {
      const int low = bits(node.b);
      return both(equal(node.a, constant(value >> low, bits(node.a))), equal(node.b, constant(value, low)));
    }
    case Op::add:
      if (is_constant(node.b)) return equal(node.a, constant(value - constant_of(node.b), node.bits));
      break;
    case Op::sub:
      if (value == 0) return equal(node.a, node.b);
      if (is_constant(node.a)) return equal(node.b, constant(constant_of(node.a) - value, node.bits));
      break;
    case Op::bit_xor:
      if (value == 0) return equal(node.a, node.b);
      if (is_constant(node.b)) return equal(node.a, constant(constant_of(node.b) ^ value, node.bits));
      break;
    case Op::mul:
      if (is_constant(node.b) && constant_of(node.b) % 2 == 1) {
        return equal(node.a, constant(inverse_of(constant_of(node.b)) * value, node.bits));
      }
      break;
    case Op::sign_extend: {
      const int inner = bits(node.a);
      const bool fits = (static_cast<uint64_t>(signed_value(value, inner)) & mask_of(node.bits)) == value;
      return fits ? equal(node.a, constant(value, inner)) : constant(0, 1);
    }
    case Op::choose: return equal_choice(a, value);
    case Op::select: return equal_selected(a, value);
    default: break;
  }
  if ((zeros(a, kDeepest) & value) != 0) return constant(0, 1);
  return make(Op::equal, 1, a, constant(value, node.bits));
}

Expr Expressions::equal_choice(Expr choice, uint64_t value) {
  const Node node = nodes_[choice];
  if (!is_constant(node.b) && !is_constant(node.c)) return make(Op::equal, 1, choice, constant(value, node.bits));
  const Expr wanted = constant(value, node.bits);
  return choose(node.a, equal(node.b, wanted), equal(node.c, wanted));
}

// An entry of a table is a value for some keys only.
Expr Expressions::equal_selected(Expr selected, uint64_t value) {
  constexpr size_t kFewKeys = 4;
  const Node node = nodes_[selected];
  const Table& table = tables_[node.number];
  std::vector<uint64_t> fitting;
  for (size_t i = 0; i < table.keys.size(); ++i) {
    const bool may_be = !is_constant(table.entries[i]) || constant_value(table.entries[i]) == value;
    if (!is_constant(table.entries[i]) || (may_be && fitting.size() == kFewKeys)) {
      return make(Op::equal, 1, selected, constant(value, node.bits));
    }
    if (may_be) fitting.push_back(table.keys[i]);
  }
  const int key_bits = table.key_bits;
  Expr any = constant(0, 1);
  for (const uint64_t key : fitting) any = either(any, equal(node.a, constant(key, key_bits)));
  return any;
}

Expr Expressions::unsigned_less(Expr a, Expr b) {
  if (Expr folded; fold(Op::unsigned_less, 1, a, b, &folded)) return folded;
  const int width = bits(a);
  const uint64_t most = mask_of(width);
  if (a == b || is_constant(b, 0) || is_constant(a, most)) return constant(0, 1);
  if (is_constant(a, 0)) return negated(equal(b, a));
  if (is_constant(b, 1)) return equal(a, constant(0, width));
  if (is_constant(b, most)) return negated(equal(a, b));
  if (width == 1) return both(negated(a), b);
  // Zeros in front of both say nothing; those in front of one against a constant may decide.
  const int zeros_a = leading_zeros(a), zeros_b = leading_zeros(b);
  if (is_constant(b) && zeros_b < zeros_a) return constant(1, 1);
  if (is_constant(a) && zeros_a < zeros_b) return constant(0, 1);
  if (const int needed = width - std::min(zeros_a, zeros_b); needed < width && needed > 0) {
    return unsigned_less(extract(a, 0, needed), extract(b, 0, needed));
  }
  return make(Op::unsigned_less, 1, a, b);
}

Expr Expressions::signed_less(Expr a, Expr b) {
  if (Expr folded; fold(Op::signed_less, 1, a, b, &folded)) return folded;
  const int width = bits(a);
  if (a == b) return constant(0, 1);
  if (is_constant(b, 0)) return sign_bit(a);
  if (is_constant(a, mask_of(width))) return negated(sign_bit(b));
  if (width == 1) return both(a, negated(b));
  if (leading_zeros(a) > 0 && leading_zeros(b) > 0) return unsigned_less(a, b);
  const Node left = nodes_[a], right = nodes_[b];
  if (left.op == Op::sign_extend || right.op == Op::sign_extend) {
    const int inner = bits(left.op == Op::sign_extend ? left.a : right.a);
    const auto fits = [&](const Node& node) {
      if (node.op == Op::constant)
        return (static_cast<uint64_t>(signed_value(node.number, inner)) & mask_of(width)) == node.number;
      return node.op == Op::sign_extend && bits(node.a) <= inner;
    };
    if (fits(left) && fits(right)) return signed_less(extract(a, 0, inner), extract(b, 0, inner));
  }
  return make(Op::signed_less, 1, a, b);
}

Expr Expressions::choose(Expr condition, Expr yes, Expr no) {
  if (is_constant(condition)) return constant_value(condition) != 0 ? yes : no;
  if (yes == no) return yes;
  const Node asked = nodes_[condition];
  if (asked.op == Op::bit_xor && is_constant(asked.b)) return choose(asked.a, no, yes);
  if (bits(yes) == 1) {
    if (is_constant(yes)) return constant_value(yes) != 0 ? either(condition, no) : both(negated(condition), no);
    if (is_constant(no)) return constant_value(no) != 0 ? either(negated(condition), yes) : both(condition, yes);
  }
  const Node then = nodes_[yes], otherwise = nodes_[no];
  if (then.op == Op::choose && then.a == condition) return choose(condition, then.b, no);
  if (otherwise.op == Op::choose && otherwise.a == condition) return choose(condition, yes, otherwise.c);
  return make(Op::choose, bits(yes), condition, yes, no);
}

}  // namespace friday::infer
