#include "core/infer/solver/flags.h"

namespace friday::infer {
namespace {

// Families of CC_OP, in VEX's order; each has one number for each width (priv/guest_amd64_defs.h of Valgrind 3.19).
constexpr uint64_t kCopy = 0, kAdd = 1, kSub = 5, kAdc = 9, kSbb = 13, kLogic = 17, kInc = 21, kDec = 25, kShl = 29,
                   kShr = 33, kRol = 37, kRor = 41, kUmul = 45, kSmul = 49, kAndn = 53, kBlsi = 55, kBlsmsk = 57,
                   kBlsr = 59, kAdcx = 61, kAdox = 63, kEnd = 65;

class FlagMaker {
 public:
  FlagMaker(Expressions& expressions, const Thunk& thunk) : x_(expressions), thunk_(thunk) {
    if (thunk.operation < kAndn) {
      family_ = thunk.operation == kCopy ? kCopy : (thunk.operation - 1) / 4 * 4 + 1;
      width_ = thunk.operation == kCopy ? 64 : 8 << (thunk.operation - family_);
    } else {
      family_ = (thunk.operation - kAndn) / 2 * 2 + kAndn;
      width_ = thunk.operation == family_ ? 32 : 64;
    }
    a_ = x_.extract(thunk.first, 0, width_);
    b_ = x_.extract(thunk.second, 0, width_);
  }

  Flags make() {
    switch (family_) {
      case kCopy: return copied(thunk_.first);
      case kAdd: return added(x_.constant(0, width_), b_);
      case kAdc: return added(x_.zero_extend(old_carry(), width_), with_old_carry());
      case kSub: return subtracted(x_.constant(0, width_), b_);
      case kSbb: return subtracted(x_.zero_extend(old_carry(), width_), with_old_carry());
      case kLogic: return of_result(a_, zero(), zero(), zero());
      case kInc: return stepped(x_.sub(a_, one_wide()), x_.equal(a_, most_negative()));
      case kDec: return stepped(x_.add(a_, one_wide()), x_.equal(a_, x_.sub(most_negative(), one_wide())));
      case kShl: return of_result(a_, x_.sign_bit(b_), zero(), x_.sign_bit(x_.bitwise(Op::bit_xor, a_, b_)));
      case kShr: return of_result(a_, bit(b_, 0), zero(), x_.sign_bit(x_.bitwise(Op::bit_xor, a_, b_)));
      case kRol: return rotated(bit(a_, 0), x_.bitwise(Op::bit_xor, x_.sign_bit(a_), bit(a_, 0)));
      case kRor: return rotated(x_.sign_bit(a_), x_.bitwise(Op::bit_xor, x_.sign_bit(a_), bit(a_, width_ - 2)));
      case kUmul: return multiplied(false);
      case kSmul: return multiplied(true);
      case kAndn: return without_parity(zero(), is_zero(a_));
      case kBlsi: return without_parity(x_.negated(is_zero(b_)), is_zero(a_));
      case kBlsmsk: return without_parity(is_zero(b_), zero());
      case kBlsr: return without_parity(is_zero(b_), is_zero(a_));
      case kAdcx: return added_one_flag(0);
      default: return added_one_flag(11);
    }
  }

  // Comparisons are what most conditions are: those after a subtraction and a logical operation are built as such.
  Expr simple_condition(uint64_t condition) {
    if (family_ == kSub) {
      switch (condition / 2) {
        case 1: return x_.unsigned_less(a_, b_);
        case 2: return x_.equal(a_, b_);
        case 3: return x_.negated(x_.unsigned_less(b_, a_));
        case 6: return x_.signed_less(a_, b_);
        case 7: return x_.negated(x_.signed_less(b_, a_));
        default: return kNone;
      }
    }
    if (family_ == kLogic && condition / 2 == 7) return x_.signed_less(a_, one_wide());
    return kNone;
  }

 private:
  Expr zero() { return x_.constant(0, 1); }
  Expr one_wide() { return x_.constant(1, width_); }
  Expr most_negative() { return x_.constant(1ull << (width_ - 1), width_); }
  Expr bit(Expr a, int number) { return x_.extract(a, number, 1); }
  Expr is_zero(Expr a) { return x_.equal(a, x_.constant(0, x_.bits(a))); }
  Expr old_carry() { return bit(thunk_.third, 0); }
  Expr with_old_carry() { return x_.bitwise(Op::bit_xor, b_, x_.zero_extend(old_carry(), width_)); }
  Expr parity_of(Expr result) {
    Expr odd = bit(result, 0);
    for (int i = 1; i < 8; ++i) odd = x_.bitwise(Op::bit_xor, odd, bit(result, i));
    return x_.negated(odd);
  }
  Expr adjust_of(Expr result, Expr a, Expr b) {
    return bit(x_.bitwise(Op::bit_xor, x_.bitwise(Op::bit_xor, result, a), b), 4);
  }
  Flags of_result(Expr result, Expr carry, Expr adjust, Expr overflow) {
    return {carry, parity_of(result), adjust, is_zero(result), x_.sign_bit(result), overflow};
  }
  Flags without_parity(Expr carry, Expr is_zero) { return {carry, zero(), zero(), is_zero, x_.sign_bit(a_), zero()}; }
  Flags copied(Expr flags) {
    return {bit(flags, 0), bit(flags, 2), bit(flags, 4), bit(flags, 6), bit(flags, 7), bit(flags, 11)};
  }
  Flags rotated(Expr carry, Expr overflow) {
    Flags flags = copied(thunk_.third);
    flags.carry = carry;
    flags.overflow = overflow;
    return flags;
  }
  // Whether a + b + carry of the last operation left the width: its result is `sum`.
  Expr carried(Expr sum, Expr carry_in) {
    const Expr with = x_.negated(x_.unsigned_less(a_, sum)), without = x_.unsigned_less(sum, a_);
    return x_.choose(is_zero(carry_in), without, with);
  }
  Flags added(Expr carry_in, Expr b) {
    const Expr sum = x_.add(x_.add(a_, b), carry_in);
    const Expr differ = x_.complement(x_.bitwise(Op::bit_xor, a_, b));
    const Expr overflow = x_.sign_bit(x_.bitwise(Op::bit_and, differ, x_.bitwise(Op::bit_xor, a_, sum)));
    return of_result(sum, carried(sum, carry_in), adjust_of(sum, a_, b), overflow);
  }
  Flags subtracted(Expr carry_in, Expr b) {
    const Expr rest = x_.sub(x_.sub(a_, b), carry_in);
    const Expr less = x_.unsigned_less(a_, b), not_more = x_.negated(x_.unsigned_less(b, a_));
    const Expr differ = x_.bitwise(Op::bit_xor, a_, b);
    const Expr overflow = x_.sign_bit(x_.bitwise(Op::bit_and, differ, x_.bitwise(Op::bit_xor, a_, rest)));
    return of_result(rest, x_.choose(is_zero(carry_in), less, not_more), adjust_of(rest, a_, b), overflow);
  }
  Flags stepped(Expr before, Expr overflow) {
    return of_result(a_, old_carry(), adjust_of(a_, before, one_wide()), overflow);
  }
  Flags multiplied(bool is_signed) {
    Expr low, high;
    if (width_ == 64) {
      low = x_.mul(a_, b_);
      high = x_.mul_high(is_signed ? Op::mul_high_signed : Op::mul_high_unsigned, a_, b_);
    } else {
      const int wide = 2 * width_;
      const Expr product = is_signed ? x_.mul(x_.sign_extend(a_, wide), x_.sign_extend(b_, wide))
                                     : x_.mul(x_.zero_extend(a_, wide), x_.zero_extend(b_, wide));
      low = x_.extract(product, 0, width_);
      high = x_.extract(product, width_, width_);
    }
    const Expr fits = is_signed ? x_.equal(high, x_.sign_extend(x_.sign_bit(low), width_)) : is_zero(high);
    const Expr beyond = x_.negated(fits);
    return of_result(low, beyond, zero(), beyond);
  }
  // adcx and adox: an addition that uses and sets one flag only.
  Flags added_one_flag(int flag) {
    Flags flags = copied(thunk_.third);
    const Expr old = bit(thunk_.third, flag), carry_in = x_.zero_extend(old, width_);
    const Expr sum = x_.add(x_.add(a_, x_.bitwise(Op::bit_xor, b_, carry_in)), carry_in);
    (flag == 0 ? flags.carry : flags.overflow) = carried(sum, carry_in);
    return flags;
  }

  Expressions& x_;
  const Thunk& thunk_;
  uint64_t family_ = kCopy;
  int width_ = 64;
  Expr a_ = kNone, b_ = kNone;
};

}  // namespace

bool flags_of(Expressions& expressions, const Thunk& thunk, Flags* flags) {
  if (thunk.operation >= kEnd) return false;
  *flags = FlagMaker(expressions, thunk).make();
  return true;
}

Expr condition_of(Expressions& x, uint64_t condition, const Thunk& thunk) {
  if (thunk.operation >= kEnd || condition > 15) return kNone;
  FlagMaker maker(x, thunk);
  Expr holds = maker.simple_condition(condition);
  if (holds == kNone) {
    const Flags flags = maker.make();
    switch (condition / 2) {
      case 0: holds = flags.overflow; break;
      case 1: holds = flags.carry; break;
      case 2: holds = flags.zero; break;
      case 3: holds = x.either(flags.carry, flags.zero); break;
      case 4: holds = flags.sign; break;
      case 5: holds = flags.parity; break;
      case 6: holds = x.bitwise(Op::bit_xor, flags.sign, flags.overflow); break;
      default: holds = x.either(x.bitwise(Op::bit_xor, flags.sign, flags.overflow), flags.zero); break;
    }
  }
  return condition % 2 == 0 ? holds : x.negated(holds);
}

Expr all_flags_of(Expressions& x, const Thunk& thunk) {
  Flags flags;
  if (!flags_of(x, thunk, &flags)) return kNone;
  const Expr zero = x.constant(0, 1);
  const Expr bits[] = {flags.carry, zero,       flags.parity, zero, flags.adjust, zero,
                       flags.zero,  flags.sign, zero,         zero, zero,         flags.overflow};
  Expr all = bits[0];
  for (size_t i = 1; i < std::size(bits); ++i) all = x.concat(bits[i], all);
  return x.zero_extend(all, 64);
}

Expr carry_of(Expressions& x, const Thunk& thunk) {
  Flags flags;
  return flags_of(x, thunk, &flags) ? x.zero_extend(flags.carry, 64) : kNone;
}

}  // namespace friday::infer
