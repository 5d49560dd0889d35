#include "core/infer/solver/operations.h"

#include <unordered_map>

namespace friday::infer {
namespace {

// An operation on lanes of `width` bits in vectors of `words` words.
enum class Lane : uint8_t {
  add,
  sub,
  mul,
  equal,
  greater_signed,
  least,
  least_signed,
  most,
  most_signed,
  shift_left,
  shift_right,
  shift_right_signed,
  not_zero,
  interleave_low,
  interleave_high,
  narrow,
  narrow_unsigned,
  narrow_signed,
  permute,
  high_product,
  high_product_signed,
};
struct LaneOperation {
  Lane lane;
  uint8_t width, words;
};

const std::unordered_map<int, LaneOperation>& lane_operations() {
  static const std::unordered_map<int, LaneOperation> known = {
      {Iop_Add8x16, {Lane::add, 8, 2}},
      {Iop_Add16x8, {Lane::add, 16, 2}},
      {Iop_Add32x4, {Lane::add, 32, 2}},
      {Iop_Add64x2, {Lane::add, 64, 2}},
      {Iop_Add8x32, {Lane::add, 8, 4}},
      {Iop_Add16x16, {Lane::add, 16, 4}},
      {Iop_Add32x8, {Lane::add, 32, 4}},
      {Iop_Add64x4, {Lane::add, 64, 4}},
      {Iop_Sub8x16, {Lane::sub, 8, 2}},
      {Iop_Sub16x8, {Lane::sub, 16, 2}},
      {Iop_Sub32x4, {Lane::sub, 32, 2}},
      {Iop_Sub64x2, {Lane::sub, 64, 2}},
      {Iop_Sub8x32, {Lane::sub, 8, 4}},
      {Iop_Sub16x16, {Lane::sub, 16, 4}},
      {Iop_Sub32x8, {Lane::sub, 32, 4}},
      {Iop_Sub64x4, {Lane::sub, 64, 4}},
      {Iop_Mul16x8, {Lane::mul, 16, 2}},
      {Iop_Mul32x4, {Lane::mul, 32, 2}},
      {Iop_Mul16x16, {Lane::mul, 16, 4}},
      {Iop_Mul32x8, {Lane::mul, 32, 4}},
      {Iop_CmpEQ8x16, {Lane::equal, 8, 2}},
      {Iop_CmpEQ16x8, {Lane::equal, 16, 2}},
      {Iop_CmpEQ32x4, {Lane::equal, 32, 2}},
      {Iop_CmpEQ64x2, {Lane::equal, 64, 2}},
      {Iop_CmpEQ8x32, {Lane::equal, 8, 4}},
      {Iop_CmpEQ16x16, {Lane::equal, 16, 4}},
      {Iop_CmpEQ32x8, {Lane::equal, 32, 4}},
      {Iop_CmpEQ64x4, {Lane::equal, 64, 4}},
      {Iop_CmpGT8Sx16, {Lane::greater_signed, 8, 2}},
      {Iop_CmpGT16Sx8, {Lane::greater_signed, 16, 2}},
      {Iop_CmpGT32Sx4, {Lane::greater_signed, 32, 2}},
      {Iop_CmpGT64Sx2, {Lane::greater_signed, 64, 2}},
      {Iop_CmpGT8Sx32, {Lane::greater_signed, 8, 4}},
      {Iop_CmpGT16Sx16, {Lane::greater_signed, 16, 4}},
      {Iop_CmpGT32Sx8, {Lane::greater_signed, 32, 4}},
      {Iop_CmpGT64Sx4, {Lane::greater_signed, 64, 4}},
      {Iop_Min8Ux16, {Lane::least, 8, 2}},
      {Iop_Min16Ux8, {Lane::least, 16, 2}},
      {Iop_Min32Ux4, {Lane::least, 32, 2}},
      {Iop_Min8Ux32, {Lane::least, 8, 4}},
      {Iop_Min16Ux16, {Lane::least, 16, 4}},
      {Iop_Min32Ux8, {Lane::least, 32, 4}},
      {Iop_Max8Ux16, {Lane::most, 8, 2}},
      {Iop_Max16Ux8, {Lane::most, 16, 2}},
      {Iop_Max32Ux4, {Lane::most, 32, 2}},
      {Iop_Max8Ux32, {Lane::most, 8, 4}},
      {Iop_Max16Ux16, {Lane::most, 16, 4}},
      {Iop_Max32Ux8, {Lane::most, 32, 4}},
      {Iop_Min8Sx16, {Lane::least_signed, 8, 2}},
      {Iop_Min16Sx8, {Lane::least_signed, 16, 2}},
      {Iop_Min32Sx4, {Lane::least_signed, 32, 2}},
      {Iop_Max8Sx16, {Lane::most_signed, 8, 2}},
      {Iop_Max16Sx8, {Lane::most_signed, 16, 2}},
      {Iop_Max32Sx4, {Lane::most_signed, 32, 2}},
      {Iop_ShlN16x8, {Lane::shift_left, 16, 2}},
      {Iop_ShlN32x4, {Lane::shift_left, 32, 2}},
      {Iop_ShlN64x2, {Lane::shift_left, 64, 2}},
      {Iop_ShrN16x8, {Lane::shift_right, 16, 2}},
      {Iop_ShrN32x4, {Lane::shift_right, 32, 2}},
      {Iop_ShrN64x2, {Lane::shift_right, 64, 2}},
      {Iop_SarN16x8, {Lane::shift_right_signed, 16, 2}},
      {Iop_SarN32x4, {Lane::shift_right_signed, 32, 2}},
      {Iop_ShlN16x16, {Lane::shift_left, 16, 4}},
      {Iop_ShlN32x8, {Lane::shift_left, 32, 4}},
      {Iop_ShlN64x4, {Lane::shift_left, 64, 4}},
      {Iop_ShrN16x16, {Lane::shift_right, 16, 4}},
      {Iop_ShrN32x8, {Lane::shift_right, 32, 4}},
      {Iop_ShrN64x4, {Lane::shift_right, 64, 4}},
      {Iop_SarN16x16, {Lane::shift_right_signed, 16, 4}},
      {Iop_SarN32x8, {Lane::shift_right_signed, 32, 4}},
      {Iop_CmpNEZ8x8, {Lane::not_zero, 8, 1}},
      {Iop_CmpNEZ8x16, {Lane::not_zero, 8, 2}},
      {Iop_CmpNEZ16x8, {Lane::not_zero, 16, 2}},
      {Iop_CmpNEZ32x4, {Lane::not_zero, 32, 2}},
      {Iop_CmpNEZ64x2, {Lane::not_zero, 64, 2}},
      {Iop_CmpNEZ8x32, {Lane::not_zero, 8, 4}},
      {Iop_CmpNEZ64x4, {Lane::not_zero, 64, 4}},
      {Iop_InterleaveLO8x16, {Lane::interleave_low, 8, 2}},
      {Iop_InterleaveLO16x8, {Lane::interleave_low, 16, 2}},
      {Iop_InterleaveLO32x4, {Lane::interleave_low, 32, 2}},
      {Iop_InterleaveLO64x2, {Lane::interleave_low, 64, 2}},
      {Iop_InterleaveHI8x16, {Lane::interleave_high, 8, 2}},
      {Iop_InterleaveHI16x8, {Lane::interleave_high, 16, 2}},
      {Iop_InterleaveHI32x4, {Lane::interleave_high, 32, 2}},
      {Iop_InterleaveHI64x2, {Lane::interleave_high, 64, 2}},
      {Iop_NarrowBin16to8x16, {Lane::narrow, 16, 2}},
      {Iop_NarrowBin32to16x8, {Lane::narrow, 32, 2}},
      {Iop_QNarrowBin16Sto8Ux16, {Lane::narrow_unsigned, 16, 2}},
      {Iop_QNarrowBin32Sto16Ux8, {Lane::narrow_unsigned, 32, 2}},
      {Iop_QNarrowBin16Sto8Sx16, {Lane::narrow_signed, 16, 2}},
      {Iop_QNarrowBin32Sto16Sx8, {Lane::narrow_signed, 32, 2}},
      {Iop_Perm8x16, {Lane::permute, 8, 2}},
      {Iop_Perm32x8, {Lane::permute, 32, 4}},
      {Iop_MulHi16Ux8, {Lane::high_product, 16, 2}},
      {Iop_MulHi16Sx8, {Lane::high_product_signed, 16, 2}},
      {Iop_MulHi16Ux16, {Lane::high_product, 16, 4}},
      {Iop_MulHi16Sx16, {Lane::high_product_signed, 16, 4}},
  };
  return known;
}

class LaneMaker {
 public:
  LaneMaker(Expressions& x, const LaneOperation& how, const std::array<Words, 4>& operands)
      : x_(x), how_(how), in_(operands) {}

  Words make() {
    std::vector<Expr> lanes;
    const int count = how_.words * 64 / how_.width;
    switch (how_.lane) {
      case Lane::interleave_low:
      case Lane::interleave_high:
        for (int i = 0, from = how_.lane == Lane::interleave_low ? 0 : count / 2; i < count / 2; ++i) {
          lanes.push_back(lane(1, from + i));
          lanes.push_back(lane(0, from + i));
        }
        break;
      case Lane::narrow:
      case Lane::narrow_unsigned:
      case Lane::narrow_signed:
        for (int i = 0; i < 2 * count; ++i) lanes.push_back(narrowed(i < count ? lane(1, i) : lane(0, i - count)));
        break;
      case Lane::permute:
        for (int i = 0; i < count; ++i) lanes.push_back(permuted(lane(1, i), count));
        break;
      default:
        for (int i = 0; i < count; ++i) lanes.push_back(one(i));
    }
    return packed(lanes);
  }

 private:
  Expr lane(int operand, int number) {
    const int at = number * how_.width;
    return x_.extract(in_[static_cast<size_t>(operand)][static_cast<size_t>(at / 64)], at % 64, how_.width);
  }
  Expr all_or_nothing(Expr condition) { return x_.sign_extend(condition, how_.width); }
  Expr amount() { return x_.extract(in_[1][0], 0, 8); }
  // A shift of all lanes by the same amount, of 8 bits, which may be beyond their width.
  Expr shifted(Op op, Expr a) {
    const int width = how_.width;
    if (width == 8) return x_.shift(op, a, amount());
    return x_.shift(op, a, x_.zero_extend(amount(), width));
  }
  Expr one(int i) {
    const Expr a = lane(0, i);
    switch (how_.lane) {
      case Lane::shift_left: return shifted(Op::shift_left, a);
      case Lane::shift_right: return shifted(Op::shift_right, a);
      case Lane::shift_right_signed: return shifted(Op::shift_right_signed, a);
      case Lane::not_zero: return all_or_nothing(x_.negated(x_.equal(a, x_.constant(0, how_.width))));
      default: break;
    }
    const Expr b = lane(1, i);
    switch (how_.lane) {
      case Lane::add: return x_.add(a, b);
      case Lane::sub: return x_.sub(a, b);
      case Lane::mul: return x_.mul(a, b);
      case Lane::equal: return all_or_nothing(x_.equal(a, b));
      case Lane::greater_signed: return all_or_nothing(x_.signed_less(b, a));
      case Lane::least: return x_.choose(x_.unsigned_less(a, b), a, b);
      case Lane::least_signed: return x_.choose(x_.signed_less(a, b), a, b);
      case Lane::most: return x_.choose(x_.unsigned_less(b, a), a, b);
      case Lane::most_signed: return x_.choose(x_.signed_less(b, a), a, b);
      case Lane::high_product:
        return x_.extract(x_.mul(x_.zero_extend(a, 2 * how_.width), x_.zero_extend(b, 2 * how_.width)), how_.width,
                          how_.width);
      default:
        return x_.extract(x_.mul(x_.sign_extend(a, 2 * how_.width), x_.sign_extend(b, 2 * how_.width)), how_.width,
                          how_.width);
    }
  }
  // A lane in half its width; with saturation, numbers that are too small or too large become the smallest or largest
  // there is.
  Expr narrowed(Expr a) {
    const int width = how_.width, half = width / 2;
    const Expr low = x_.extract(a, 0, half);
    if (how_.lane == Lane::narrow) return low;
    const bool is_signed = how_.lane == Lane::narrow_signed;
    const uint64_t least = is_signed ? 0 - (1ull << (half - 1)) : 0,
                   most = is_signed ? mask_of(half - 1) : mask_of(half);
    const Expr smallest = x_.constant(least, width), largest = x_.constant(most, width);
    return x_.choose(x_.signed_less(a, smallest), x_.constant(least, half),
                     x_.choose(x_.signed_less(largest, a), x_.constant(most, half), low));
  }
  Expr permuted(Expr index, int count) {
    Table table;
    table.key_bits = count == 16 ? 4 : 3;
    table.entry_bits = how_.width;
    for (int i = 0; i < count; ++i) {
      table.keys.push_back(static_cast<uint64_t>(i));
      table.entries.push_back(lane(0, i));
    }
    return x_.select(std::move(table), x_.extract(index, 0, count == 16 ? 4 : 3));
  }
  Words packed(const std::vector<Expr>& lanes) {
    Words words{};
    size_t word = 0;
    Expr built = kNone;
    for (const Expr each : lanes) {
      built = built == kNone ? each : x_.concat(each, built);
      if (x_.bits(built) < 64) continue;
      words[word++] = built;
      built = kNone;
    }
    return words;
  }

  Expressions& x_;
  const LaneOperation& how_;
  const std::array<Words, 4>& in_;
};

// Operations of one family, for 8, 16, 32 and 64 bits.
bool is_of(IROp op, IROp first, int* width) {
  if (op < first || op > first + 3) return false;
  *width = 8 << (op - first);
  return true;
}

class OperationMaker {
 public:
  OperationMaker(Expressions& x, IROp op, const std::array<Words, 4>& operands) : x_(x), op_(op), in_(operands) {}

  bool make(Words* result) {
    out_ = result;
    if (family() || comparison() || conversion() || product() || pieces() || whole_words()) return true;
    const auto found = lane_operations().find(op_);
    if (found == lane_operations().end()) return false;
    *result = LaneMaker(x_, found->second, in_).make();
    return true;
  }

 private:
  Expr a(int bits) { return x_.extract(in_[0][0], 0, bits); }
  Expr b(int bits) { return x_.extract(in_[1][0], 0, bits); }
  Expr zero(int bits) { return x_.constant(0, bits); }
  bool give(Expr narrow) {
    (*out_)[0] = x_.zero_extend(narrow, 64);
    return true;
  }
  bool give(std::initializer_list<Expr> words) {
    std::copy(words.begin(), words.end(), out_->begin());
    return true;
  }

  bool family() {
    int width = 0;
    const auto amount = [&] { return width == 8 ? b(8) : x_.zero_extend(b(8), width); };
    if (is_of(op_, Iop_Add8, &width)) return give(x_.add(a(width), b(width)));
    if (is_of(op_, Iop_Sub8, &width)) return give(x_.sub(a(width), b(width)));
    if (is_of(op_, Iop_Mul8, &width)) return give(x_.mul(a(width), b(width)));
    if (is_of(op_, Iop_Or8, &width)) return give(x_.bitwise(Op::bit_or, a(width), b(width)));
    if (is_of(op_, Iop_And8, &width)) return give(x_.bitwise(Op::bit_and, a(width), b(width)));
    if (is_of(op_, Iop_Xor8, &width)) return give(x_.bitwise(Op::bit_xor, a(width), b(width)));
    if (is_of(op_, Iop_Not8, &width)) return give(x_.complement(a(width)));
    if (is_of(op_, Iop_Shl8, &width)) return give(x_.shift(Op::shift_left, a(width), amount()));
    if (is_of(op_, Iop_Shr8, &width)) return give(x_.shift(Op::shift_right, a(width), amount()));
    if (is_of(op_, Iop_Sar8, &width)) return give(x_.shift(Op::shift_right_signed, a(width), amount()));
    if (is_of(op_, Iop_Left8, &width)) return give(x_.bitwise(Op::bit_or, a(width), x_.sub(zero(width), a(width))));
    return false;
  }

  bool comparison() {
    int width = 0;
    for (const IROp first : {Iop_CmpEQ8, Iop_CasCmpEQ8}) {
      if (is_of(op_, first, &width)) return give(x_.equal(a(width), b(width)));
    }
    for (const IROp first : {Iop_CmpNE8, Iop_CasCmpNE8, Iop_ExpCmpNE8}) {
      if (is_of(op_, first, &width)) return give(x_.negated(x_.equal(a(width), b(width))));
    }
    if (is_of(op_, Iop_CmpNEZ8, &width)) return give(not_zero(width));
    switch (op_) {
      case Iop_CmpwNEZ32: return give(x_.sign_extend(not_zero(32), 32));
      case Iop_CmpwNEZ64: return give(x_.sign_extend(not_zero(64), 64));
      case Iop_CmpLT32S: return give(x_.signed_less(a(32), b(32)));
      case Iop_CmpLT64S: return give(x_.signed_less(a(64), b(64)));
      case Iop_CmpLE32S: return give(x_.negated(x_.signed_less(b(32), a(32))));
      case Iop_CmpLE64S: return give(x_.negated(x_.signed_less(b(64), a(64))));
      case Iop_CmpLT32U: return give(x_.unsigned_less(a(32), b(32)));
      case Iop_CmpLT64U: return give(x_.unsigned_less(a(64), b(64)));
      case Iop_CmpLE32U: return give(x_.negated(x_.unsigned_less(b(32), a(32))));
      case Iop_CmpLE64U: return give(x_.negated(x_.unsigned_less(b(64), a(64))));
      case Iop_Max32U: return give(x_.choose(x_.unsigned_less(b(32), a(32)), a(32), b(32)));
      default: return false;
    }
  }
  Expr not_zero(int width) { return x_.negated(x_.equal(a(width), zero(width))); }

  bool conversion() {
    switch (op_) {
      case Iop_8Sto16: return give(x_.sign_extend(a(8), 16));
      case Iop_8Sto32: return give(x_.sign_extend(a(8), 32));
      case Iop_8Sto64: return give(x_.sign_extend(a(8), 64));
      case Iop_16Sto32: return give(x_.sign_extend(a(16), 32));
      case Iop_16Sto64: return give(x_.sign_extend(a(16), 64));
      case Iop_32Sto64: return give(x_.sign_extend(a(32), 64));
      case Iop_64to8:
      case Iop_32to8:
      case Iop_16to8: return give(a(8));
      case Iop_64to16:
      case Iop_32to16: return give(a(16));
      case Iop_64to32:
      case Iop_V128to32: return give(a(32));
      case Iop_32to1:
      case Iop_64to1: return give(a(1));
      case Iop_16HIto8: return give(x_.extract(in_[0][0], 8, 8));
      case Iop_32HIto16: return give(x_.extract(in_[0][0], 16, 16));
      case Iop_64HIto32: return give(x_.extract(in_[0][0], 32, 32));
      case Iop_8HLto16: return give(x_.concat(a(8), b(8)));
      case Iop_16HLto32: return give(x_.concat(a(16), b(16)));
      case Iop_32HLto64: return give(x_.concat(a(32), b(32)));
      case Iop_Not1: return give(x_.negated(a(1)));
      case Iop_And1: return give(x_.both(a(1), b(1)));
      case Iop_Or1: return give(x_.either(a(1), b(1)));
      case Iop_1Sto8: return give(x_.sign_extend(a(1), 8));
      case Iop_1Sto16: return give(x_.sign_extend(a(1), 16));
      case Iop_1Sto32: return give(x_.sign_extend(a(1), 32));
      case Iop_1Sto64: return give(x_.sign_extend(a(1), 64));
      case Iop_1Uto8:
      case Iop_1Uto32:
      case Iop_1Uto64:
      case Iop_8Uto16:
      case Iop_8Uto32:
      case Iop_8Uto64:
      case Iop_16Uto32:
      case Iop_16Uto64:
      case Iop_32Uto64: return give(in_[0][0]);
      default: return false;
    }
  }

  bool multiplied(int width, bool is_signed) {
    const int wide = 2 * width;
    return give(is_signed ? x_.mul(x_.sign_extend(a(width), wide), x_.sign_extend(b(width), wide))
                          : x_.mul(x_.zero_extend(a(width), wide), x_.zero_extend(b(width), wide)));
  }
  // A number of 64 bits by one of 32: the quotient below the remainder.
  bool divided_32(Op quotient, Op rest, bool is_signed) {
    const Expr by = is_signed ? x_.sign_extend(b(32), 64) : x_.zero_extend(b(32), 64);
    return give(
        x_.concat(x_.extract(x_.divide(rest, a(64), by), 0, 32), x_.extract(x_.divide(quotient, a(64), by), 0, 32)));
  }
  bool divided_64(Op quotient, Op rest) {
    return give(
        {x_.divide_wide(quotient, in_[0][1], in_[0][0], b(64)), x_.divide_wide(rest, in_[0][1], in_[0][0], b(64))});
  }
  bool product() {
    switch (op_) {
      case Iop_MullS8: return multiplied(8, true);
      case Iop_MullS16: return multiplied(16, true);
      case Iop_MullS32: return multiplied(32, true);
      case Iop_MullU8: return multiplied(8, false);
      case Iop_MullU16: return multiplied(16, false);
      case Iop_MullU32: return multiplied(32, false);
      case Iop_MullS64: return give({x_.mul(a(64), b(64)), x_.mul_high(Op::mul_high_signed, a(64), b(64))});
      case Iop_MullU64: return give({x_.mul(a(64), b(64)), x_.mul_high(Op::mul_high_unsigned, a(64), b(64))});
      case Iop_DivModU64to32: return divided_32(Op::unsigned_divide, Op::unsigned_modulo, false);
      case Iop_DivModS64to32: return divided_32(Op::signed_divide, Op::signed_modulo, true);
      case Iop_DivModU128to64: return divided_64(Op::wide_unsigned_divide, Op::wide_unsigned_modulo);
      case Iop_DivModS128to64: return divided_64(Op::wide_signed_divide, Op::wide_signed_modulo);
      case Iop_Clz64:
      case Iop_ClzNat64: return give(x_.count(Op::count_leading_zeros, a(64)));
      case Iop_Clz32:
      case Iop_ClzNat32: return give(x_.count(Op::count_leading_zeros, a(32)));
      case Iop_Ctz64:
      case Iop_CtzNat64: return give(x_.count(Op::count_trailing_zeros, a(64)));
      case Iop_Ctz32:
      case Iop_CtzNat32: return give(x_.count(Op::count_trailing_zeros, a(32)));
      case Iop_PopCount64: return give(x_.count(Op::count_ones, a(64)));
      case Iop_PopCount32: return give(x_.count(Op::count_ones, a(32)));
      case Iop_MullEven32Ux4:
        return give({x_.mul(x_.zero_extend(a(32), 64), x_.zero_extend(b(32), 64)),
                     x_.mul(x_.zero_extend(x_.extract(in_[0][1], 0, 32), 64),
                            x_.zero_extend(x_.extract(in_[1][1], 0, 32), 64))});
      default: return false;
    }
  }

  bool low_of_vector(int bits) { return give({x_.zero_extend(a(bits), 64), zero(64)}); }
  bool set_low(int bits) {
    const Expr high = in_[0][0];
    return give({bits == 64 ? b(64) : x_.concat(x_.extract(high, bits, 64 - bits), b(bits)), in_[0][1]});
  }
  bool pieces() {
    const Words& first = in_[0];
    const Words& second = in_[1];
    switch (op_) {
      case Iop_128to64:
      case Iop_V128to64:
      case Iop_V256to64_0: return give(first[0]);
      case Iop_128HIto64:
      case Iop_V128HIto64:
      case Iop_V256to64_1: return give(first[1]);
      case Iop_V256to64_2: return give(first[2]);
      case Iop_V256to64_3: return give(first[3]);
      case Iop_64HLto128:
      case Iop_64HLtoV128: return give({second[0], first[0]});
      case Iop_64x4toV256: return give({in_[3][0], in_[2][0], second[0], first[0]});
      case Iop_V256toV128_0: return give({first[0], first[1]});
      case Iop_V256toV128_1: return give({first[2], first[3]});
      case Iop_V128HLtoV256: return give({second[0], second[1], first[0], first[1]});
      case Iop_64UtoV128:
      case Iop_ZeroHI64ofV128: return low_of_vector(64);
      case Iop_32UtoV128:
      case Iop_ZeroHI96ofV128: return low_of_vector(32);
      case Iop_ZeroHI112ofV128: return low_of_vector(16);
      case Iop_ZeroHI120ofV128: return low_of_vector(8);
      case Iop_SetV128lo64: return set_low(64);
      case Iop_SetV128lo32: return set_low(32);
      case Iop_ShlV128: return shifted_vector(true);
      case Iop_ShrV128: return shifted_vector(false);
      case Iop_GetMSBs8x8: return sign_bits(1);
      case Iop_GetMSBs8x16: return sign_bits(2);
      default: return false;
    }
  }
  bool sign_bits(size_t words) {
    Expr built = kNone;
    for (size_t i = 0; i < 8 * words; ++i) {
      const Expr bit = x_.extract(in_[0][i / 8], static_cast<int>(i % 8 * 8 + 7), 1);
      built = built == kNone ? bit : x_.concat(bit, built);
    }
    return give(built);
  }
  // Shifts of whole vectors are by constants; in programs there are no others.
  bool shifted_vector(bool left) {
    if (!x_.is_constant(b(8))) return false;
    const auto by = static_cast<int>(x_.constant_value(b(8)));
    const Expr low = in_[0][0], high = in_[0][1];
    const int part = by % 64;
    if (by >= 128) return give({zero(64), zero(64)});
    const auto across = [&](Expr above, Expr below, int from) {  // 64 bits of above:below, from this bit on
      return from == 0    ? below
             : from == 64 ? above
                          : x_.concat(x_.extract(above, 0, from), x_.extract(below, from, 64 - from));
    };
    if (left) {
      if (by >= 64) return give({zero(64), across(low, zero(64), 64 - part)});
      return give({across(low, zero(64), 64 - part), across(high, low, 64 - part)});
    }
    if (by >= 64) return give({across(zero(64), high, part), zero(64)});
    return give({across(high, low, part), across(zero(64), high, part)});
  }

  bool bitwise(Op op, size_t words) {
    for (size_t i = 0; i < words; ++i) (*out_)[i] = x_.bitwise(op, in_[0][i], in_[1][i]);
    return true;
  }
  bool whole_words() {
    switch (op_) {
      case Iop_AndV128: return bitwise(Op::bit_and, 2);
      case Iop_OrV128: return bitwise(Op::bit_or, 2);
      case Iop_XorV128: return bitwise(Op::bit_xor, 2);
      case Iop_AndV256: return bitwise(Op::bit_and, 4);
      case Iop_OrV256: return bitwise(Op::bit_or, 4);
      case Iop_XorV256: return bitwise(Op::bit_xor, 4);
      case Iop_NotV128:
      case Iop_NotV256:
        for (size_t i = 0; i < (op_ == Iop_NotV128 ? 2 : 4); ++i) (*out_)[i] = x_.complement(in_[0][i]);
        return true;
      default: return false;
    }
  }

  Expressions& x_;
  IROp op_;
  const std::array<Words, 4>& in_;
  Words* out_ = nullptr;
};

}  // namespace

bool apply_operation(Expressions& expressions, IROp operation, const std::array<Words, 4>& operands, Words* result) {
  return OperationMaker(expressions, operation, operands).make(result);
}

}  // namespace friday::infer
