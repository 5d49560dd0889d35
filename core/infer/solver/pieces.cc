// Expressions that take bit-vectors apart and put them together. A concatenation is a list: its upper part is never a
// concatenation itself. Neighbours that belong together are joined, so bytes that a program copies one by one stay the
// number that they were.
#include <bit>

#include "core/infer/solver/expression.h"

namespace friday::infer {
namespace {

constexpr int kDeepestPush = 6;  // how far an extraction is pushed down into operations
constexpr int kMostRuns = 4;     // of ones in a mask that becomes a concatenation

}  // namespace

// The one expression that `high` above `low` is, or none if they stay two.
Expr Expressions::join(Expr high, Expr low) {
  const Node upper = nodes_[high], lower = nodes_[low];
  const int width = upper.bits + lower.bits;
  if (upper.op == Op::constant && lower.op == Op::constant)
    return constant(upper.number << lower.bits | lower.number, width);
  if (upper.op == Op::extract) {
    const int from = static_cast<int>(upper.number) - lower.bits;
    if (lower.op == Op::extract && lower.a == upper.a && static_cast<int>(lower.number) == from)
      return extract(upper.a, from, width);
    if (from == 0 && bits(upper.a) > lower.bits && lower.op != Op::extract && extract(upper.a, 0, lower.bits) == low) {
      return extract(upper.a, 0, width);
    }
  }
  if (upper.op == Op::choose && lower.op == Op::choose && upper.a == lower.a && is_constant(upper.b) &&
      is_constant(upper.c) && is_constant(lower.b) && is_constant(lower.c)) {
    return choose(upper.a, join(upper.b, lower.b), join(upper.c, lower.c));
  }
  return kNone;
}

Expr Expressions::concat(Expr high, Expr low) {
  const Node upper = nodes_[high];
  if (upper.op == Op::concat) return concat(upper.a, concat(upper.b, low));
  const Node lower = nodes_[low];
  if (lower.op == Op::concat) {
    if (const Expr joined = join(high, lower.a)) return concat(joined, lower.b);
  } else if (const Expr joined = join(high, low)) {
    return joined;
  }
  return make(Op::concat, upper.bits + lower.bits, high, low);
}

Expr Expressions::zero_extend(Expr a, int width) {
  return bits(a) == width ? a : concat(constant(0, width - bits(a)), a);
}

Expr Expressions::sign_extend(Expr a, int width) {
  const Node node = nodes_[a];
  if (node.bits == width) return a;
  if (node.op == Op::constant) return constant(static_cast<uint64_t>(signed_value(node.number, node.bits)), width);
  if (node.op == Op::sign_extend) return sign_extend(node.a, width);
  if (leading_zeros(a) > 0) return zero_extend(a, width);
  if (node.bits == 1) return choose(a, constant(~0ull, width), constant(0, width));
  return make(Op::sign_extend, width, a);
}

Expr Expressions::extract(Expr a, int low, int width) { return extract_from(a, low, width, kDeepestPush); }

Expr Expressions::extract_from(Expr a, int low, int width, int depth) {
  const Node node = nodes_[a];
  if (width == node.bits) return a;
  const int end = low + width;
  switch (node.op) {
    case Op::constant: return constant(node.number >> low, width);
    case Op::extract: return extract_from(node.a, low + static_cast<int>(node.number), width, depth);
    case Op::concat: {
      const int split = bits(node.b);
      if (low >= split) return extract_from(node.a, low - split, width, depth);
      if (end <= split) return extract_from(node.b, low, width, depth);
      return concat(extract_from(node.a, 0, end - split, depth), extract_from(node.b, low, split - low, depth));
    }
    case Op::sign_extend: {
      const int inner = bits(node.a);
      if (end <= inner) return extract_from(node.a, low, width, depth);
      const int from = std::min(low, inner - 1);
      return sign_extend(extract_from(node.a, from, inner - from, depth), width);
    }
    default: break;
  }
  if (depth > 0) {
    if (const Expr pushed = extract_pushed(a, low, width, depth - 1)) return pushed;
  }
  return make(Op::extract, width, a, kNone, kNone, static_cast<uint64_t>(low));
}

// An extraction of an operation's result as that operation on extractions, where this is no more work; none otherwise.
Expr Expressions::extract_pushed(Expr a, int low, int width, int depth) {
  const Node node = nodes_[a];
  const auto part = [&](Expr operand) { return extract_from(operand, low, width, depth); };
  const auto easy = [&](Expr operand) {
    const Op op = nodes_[operand].op;
    return op == Op::constant || op == Op::concat || op == Op::extract || op == Op::sign_extend;
  };
  switch (node.op) {
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
      if (easy(node.a) || easy(node.b)) return bitwise(node.op, part(node.a), part(node.b));
      return kNone;
    case Op::choose:
      if (easy(node.b) || easy(node.c)) return choose(node.a, part(node.b), part(node.c));
      return kNone;
    case Op::add: return low == 0 && (easy(node.a) || easy(node.b)) ? add(part(node.a), part(node.b)) : kNone;
    case Op::sub: return low == 0 && (easy(node.a) || easy(node.b)) ? sub(part(node.a), part(node.b)) : kNone;
    case Op::mul: return low == 0 && (easy(node.a) || easy(node.b)) ? mul(part(node.a), part(node.b)) : kNone;
    default: return kNone;
  }
}

// `a` where the mask is 1, and 0 elsewhere. A mask of few runs of ones makes a concatenation.
Expr Expressions::masked(Expr a, uint64_t mask) {
  const int width = bits(a);
  mask &= mask_of(width);
  if (mask == 0) return constant(0, width);
  if (mask == mask_of(width)) return a;
  if (std::popcount(mask & ~(mask << 1)) > kMostRuns) return make(Op::bit_and, width, a, constant(mask, width));
  Expr built = kNone;
  for (int low = 0; low < width;) {
    const bool ones = (mask >> low & 1) != 0;
    const uint64_t rest = mask >> low;
    const int run = std::min(width - low, ones ? std::countr_one(rest) : rest == 0 ? 64 : std::countr_zero(rest));
    const Expr piece = ones ? extract(a, low, run) : constant(0, run);
    built = built == kNone ? piece : concat(piece, built);
    low += run;
  }
  return built;
}

Expr Expressions::simple_bitwise(Op op, Expr a, uint64_t value) {
  const int width = bits(a);
  const Node node = nodes_[a];
  if (op == Op::bit_and) {
    if (node.op == Op::bit_and && is_constant(node.b))
      return bitwise(op, node.a, constant(constant_value(node.b) & value, width));
    return masked(a, value);
  }
  if (value == 0) return a;
  if (op == Op::bit_or) {
    if (value == mask_of(width)) return constant(value, width);
    if (node.op == op && is_constant(node.b))
      return bitwise(op, node.a, constant(constant_value(node.b) | value, width));
  } else {
    if (node.op == op && is_constant(node.b))
      return bitwise(op, node.a, constant(constant_value(node.b) ^ value, width));
    if (node.op == Op::choose && is_constant(node.b) && is_constant(node.c)) {
      return choose(node.a, constant(constant_value(node.b) ^ value, width),
                    constant(constant_value(node.c) ^ value, width));
    }
  }
  return make(op, width, a, constant(value, width));
}

// Two concatenations are taken piece by piece, so that bytes stay bytes.
Expr Expressions::split_bitwise(Op op, Expr a, Expr b) {
  const Node left = nodes_[a], right = nodes_[b];
  const Node& split = left.op == Op::concat ? left : right;
  const int low = bits(split.b), width = left.bits;
  return concat(bitwise(op, extract(a, low, width - low), extract(b, low, width - low)),
                bitwise(op, extract(a, 0, low), extract(b, 0, low)));
}

Expr Expressions::bitwise(Op op, Expr a, Expr b) {
  const int width = bits(a);
  if (Expr folded; fold(op, width, a, b, &folded)) return folded;
  if (a == b) return op == Op::bit_xor ? constant(0, width) : a;
  if (is_constant(a) || (!is_constant(b) && a > b)) std::swap(a, b);
  const Node left = nodes_[a], right = nodes_[b];
  if (left.op == Op::concat && (right.op == Op::constant || right.op == Op::concat)) return split_bitwise(op, a, b);
  const auto has_constant = [&](const Node& node) {
    return node.op == Op::concat && (is_constant(node.a) || is_constant(node.b));
  };
  if (has_constant(left) || has_constant(right)) return split_bitwise(op, a, b);
  if (right.op == Op::constant) return simple_bitwise(op, a, right.number);
  if (op == Op::bit_xor) {
    // What is combined twice is gone; constants go outwards.
    for (const auto& [node, other] : {std::pair(left, b), std::pair(right, a)}) {
      if (node.op != op) continue;
      if (node.a == other) return node.b;
      if (node.b == other) return node.a;
      if (is_constant(node.b)) return bitwise(op, bitwise(op, node.a, other), node.b);
    }
  } else {
    if (left.op == op && (left.a == b || left.b == b)) return a;
    if (right.op == op && (right.a == a || right.b == a)) return b;
    const bool opposite = (left.op == Op::bit_xor && left.a == b && is_constant(left.b)) ||
                          (right.op == Op::bit_xor && right.a == a && is_constant(right.b));
    if (width == 1 && opposite) return constant(op == Op::bit_or, 1);
  }
  return make(op, width, a, b);
}

}  // namespace friday::infer
