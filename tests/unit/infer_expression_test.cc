// Expressions of friday-infer: random ones, built with all simplifications, mean what the same operations give on
// numbers; what Z3 finds satisfies them; flags are those of VEX.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "core/infer/solver/flags.h"
#include "core/infer/solver/linear.h"
#include "core/infer/solver/questions.h"
#include "core/infer/solver/vex.h"

extern "C" {
ULong amd64g_calculate_condition(ULong condition, ULong operation, ULong first, ULong second, ULong third);
ULong amd64g_calculate_rflags_all(ULong operation, ULong first, ULong second, ULong third);
ULong amd64g_calculate_rflags_c(ULong operation, ULong first, ULong second, ULong third);
}

namespace friday::infer {
namespace {

constexpr int kSymbols = 6, kModels = 8;

// An expression, and its value under each model by an evaluation of its own.
struct Both {
  Expr expression;
  int bits;
  uint64_t values[kModels];
};

class Growing {
 public:
  Growing(Expressions& x, std::mt19937_64& random) : x_(x), random_(random) {
    for (Model& model : models) {
      for (int i = 0; i < kSymbols; ++i) model.push_back(interesting_byte());
    }
    for (uint32_t i = 0; i < kSymbols; ++i) {
      Both symbol{x_.symbol(i), 8, {}};
      for (int m = 0; m < kModels; ++m) symbol.values[m] = models[m][i];
      all.push_back(symbol);
    }
  }

  void step() {
    switch (random_() % 16) {
      case 0: return constant();
      case 1:
        return binary([&](Expr a, Expr b) { return x_.add(a, b); }, [](uint64_t a, uint64_t b, int) { return a + b; });
      case 2:
        return binary([&](Expr a, Expr b) { return x_.sub(a, b); }, [](uint64_t a, uint64_t b, int) { return a - b; });
      case 3:
        return binary([&](Expr a, Expr b) { return x_.mul(a, b); }, [](uint64_t a, uint64_t b, int) { return a * b; });
      case 4:
        return binary([&](Expr a, Expr b) { return x_.bitwise(Op::bit_and, a, b); },
                      [](uint64_t a, uint64_t b, int) { return a & b; });
      case 5:
        return binary([&](Expr a, Expr b) { return x_.bitwise(Op::bit_or, a, b); },
                      [](uint64_t a, uint64_t b, int) { return a | b; });
      case 6:
        return binary([&](Expr a, Expr b) { return x_.bitwise(Op::bit_xor, a, b); },
                      [](uint64_t a, uint64_t b, int) { return a ^ b; });
      case 7: return shift();
      case 8: return compare();
      case 9: return choose();
      case 10: return extract();
      case 11: return concat();
      case 12: return extend();
      case 13: return divide();
      case 14: return count();
      default: return table();
    }
  }

  const Both& any() { return all[random_() % all.size()]; }
  const Both& any_of(int bits) {
    for (int i = 0; i < 200; ++i) {
      if (const Both& found = any(); found.bits == bits) return found;
    }
    constant(bits);
    return all.back();
  }

  std::vector<Both> all;
  Model models[kModels];

 private:
  uint8_t interesting_byte() {
    return random_() % 3 != 0 ? static_cast<uint8_t>(random_())
                              : static_cast<uint8_t>("\0\1\x7f\x80\xff "[random_() % 6]);
  }
  int width() { return (int[]){1, 8, 8, 16, 32, 32, 64, 7, 33}[random_() % 9]; }
  void add(Expr expression, int bits, auto value_of) {
    Both made{expression, bits, {}};
    for (int m = 0; m < kModels; ++m) made.values[m] = value_of(m) & mask_of(bits);
    all.push_back(made);
  }
  void constant(int bits = 0) {
    if (bits == 0) bits = width();
    const uint64_t value = random_() % 2 != 0 ? random_() : random_() % 3 - 1;
    add(x_.constant(value, bits), bits, [&](int) { return value; });
  }
  void binary(auto build, auto compute) {
    const Both a = any(), b = any_of(a.bits);
    add(build(a.expression, b.expression), a.bits, [&](int m) { return compute(a.values[m], b.values[m], a.bits); });
  }
  void shift() {
    const Both a = any(), b = random_() % 2 != 0
                                  ? any_of(a.bits)
                                  : Both{x_.constant(random_() % (static_cast<uint64_t>(a.bits) + 2), a.bits), 0, {}};
    x_.set_model(&models[0]);
    const Op op = (Op[]){Op::shift_left, Op::shift_right, Op::shift_right_signed}[random_() % 3];
    add(x_.shift(op, a.expression, b.expression), a.bits, [&](int m) -> uint64_t {
      const uint64_t by = b.bits == 0 ? x_.constant_value(b.expression) : b.values[m];
      const bool beyond = by >= static_cast<uint64_t>(a.bits);
      if (op == Op::shift_left) return beyond ? 0 : a.values[m] << by;
      if (op == Op::shift_right) return beyond ? 0 : a.values[m] >> by;
      return static_cast<uint64_t>(signed_value(a.values[m], a.bits) >> (beyond ? 63 : by));
    });
  }
  void compare() {
    const Both a = any(), b = any_of(a.bits);
    switch (random_() % 3) {
      case 0:
        return add(x_.equal(a.expression, b.expression), 1,
                   [&](int m) { return uint64_t{a.values[m] == b.values[m]}; });
      case 1:
        return add(x_.unsigned_less(a.expression, b.expression), 1,
                   [&](int m) { return uint64_t{a.values[m] < b.values[m]}; });
      default:
        return add(x_.signed_less(a.expression, b.expression), 1, [&](int m) {
          return uint64_t{signed_value(a.values[m], a.bits) < signed_value(b.values[m], b.bits)};
        });
    }
  }
  void choose() {
    const Both condition = any_of(1), a = any(), b = any_of(a.bits);
    add(x_.choose(condition.expression, a.expression, b.expression), a.bits,
        [&](int m) { return condition.values[m] != 0 ? a.values[m] : b.values[m]; });
  }
  void extract() {
    const Both a = any();
    const int low = static_cast<int>(random_() % static_cast<uint64_t>(a.bits)),
              bits = 1 + static_cast<int>(random_() % static_cast<uint64_t>(a.bits - low));
    add(x_.extract(a.expression, low, bits), bits, [&](int m) { return a.values[m] >> low; });
  }
  void concat() {
    const Both a = any(), b = any();
    if (a.bits + b.bits > 64) return;
    add(x_.concat(a.expression, b.expression), a.bits + b.bits,
        [&](int m) { return a.values[m] << b.bits | b.values[m]; });
  }
  void extend() {
    const Both a = any();
    const int bits = a.bits + static_cast<int>(random_() % static_cast<uint64_t>(65 - a.bits));
    if (random_() % 2 != 0) return add(x_.zero_extend(a.expression, bits), bits, [&](int m) { return a.values[m]; });
    add(x_.sign_extend(a.expression, bits), bits,
        [&](int m) { return static_cast<uint64_t>(signed_value(a.values[m], a.bits)); });
  }
  void divide() {
    const Both a = any(), b = any_of(a.bits);
    for (int m = 0; m < kModels; ++m) {
      if (b.values[m] == 0) return;
    }
    const Op op = (Op[]){Op::unsigned_divide, Op::unsigned_modulo, Op::signed_divide, Op::signed_modulo}[random_() % 4];
    add(x_.divide(op, a.expression, b.expression), a.bits, [&](int m) -> uint64_t {
      const __int128 p = signed_value(a.values[m], a.bits), q = signed_value(b.values[m], b.bits);
      switch (op) {
        case Op::unsigned_divide: return a.values[m] / b.values[m];
        case Op::unsigned_modulo: return a.values[m] % b.values[m];
        case Op::signed_divide: return static_cast<uint64_t>(p / q);
        default: return static_cast<uint64_t>(p % q);
      }
    });
  }
  void count() {
    const Both a = any();
    const Op op = (Op[]){Op::count_ones, Op::count_leading_zeros, Op::count_trailing_zeros}[random_() % 3];
    add(x_.count(op, a.expression), a.bits, [&](int m) -> uint64_t {
      if (op == Op::count_ones) return static_cast<uint64_t>(std::popcount(a.values[m]));
      if (a.values[m] == 0) return static_cast<uint64_t>(a.bits);
      return static_cast<uint64_t>(op == Op::count_leading_zeros ? std::countl_zero(a.values[m]) - 64 + a.bits
                                                                 : std::countr_zero(a.values[m]));
    });
  }
  void table() {
    const Both index = any_of(8), first = any();
    Table made{8, static_cast<uint8_t>(first.bits), {}, {}};
    std::vector<Both> entries;
    for (uint64_t key = 0; key < 256; ++key) {
      entries.push_back(key % 64 == 0 ? any_of(first.bits) : Both{x_.constant(key * 77, first.bits), first.bits, {}});
      if (key % 64 != 0) std::fill_n(entries.back().values, kModels, key * 77 & mask_of(first.bits));
      made.keys.push_back(key);
      made.entries.push_back(entries.back().expression);
    }
    add(x_.select(made, index.expression), first.bits, [&](int m) { return entries[index.values[m]].values[m]; });
  }

  Expressions& x_;
  std::mt19937_64& random_;
};

TEST(InferExpression, RandomOnesMeanWhatTheyShould) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    Expressions x;
    Model none;
    x.set_model(&none);
    Growing growing(x, random);
    for (int i = 0; i < 150; ++i) growing.step();
    for (int m = 0; m < kModels; ++m) {
      x.set_model(&growing.models[m]);
      for (size_t i = 0; i < growing.all.size(); ++i) {
        const Both& each = growing.all[i];
        ASSERT_EQ(x.bits(each.expression), each.bits);
        ASSERT_EQ(x.value(each.expression), each.values[m])
            << "round " << round << ", expression " << i << ", model " << m;
      }
    }
  }
}

TEST(InferExpression, ModelsThatAreFoundSatisfy) {
  std::mt19937_64 random(2);
  int found = 0, impossible = 0;
  for (int round = 0; round < 150; ++round) {
    Expressions x;
    Model none(kSymbols);
    x.set_model(&none);
    Growing growing(x, random);
    for (int i = 0; i < 60; ++i) growing.step();
    // What one model satisfies can be satisfied, from wherever the search begins.
    std::vector<Expr> conditions;
    for (int i = 0; i < 4; ++i) {
      const Both& each = growing.any();
      const Expr same = x.equal(each.expression, x.constant(each.values[0], each.bits));
      if (!x.is_constant(same)) conditions.push_back(same);
    }
    Questions questions(x);
    Model model = growing.models[1];
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const Answer answer = questions.solve(conditions, &model, deadline);
    ASSERT_NE(answer, Answer::no) << "round " << round;
    if (answer == Answer::unknown) continue;
    ++found;
    x.set_model(&model);
    for (const Expr each : conditions) ASSERT_EQ(x.value(each), 1u) << "round " << round;
    x.set_model(&none);
    for (const Expr each : std::vector(conditions)) conditions.push_back(x.negated(each));
    if (!conditions.empty() && questions.solve(conditions, &model, deadline) == Answer::no) ++impossible;
  }
  EXPECT_GT(found, 140);
  EXPECT_GT(impossible, 70);
}

TEST(InferExpression, LinearSumsAreSolved) {
  Expressions x;
  Model model(40);
  x.set_model(&model);
  Expr sum = x.constant(7, 32);
  for (uint32_t i = 0; i < 40; ++i) sum = x.add(x.mul(sum, x.constant(31, 32)), x.zero_extend(x.symbol(i), 32));
  const auto form = linear_form(x, sum);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->factors.at(38), 31u);
  Questions questions(x);
  Model found(40);
  const Expr condition = x.equal(sum, x.constant(0xdeadbeef, 32));
  ASSERT_EQ(
      questions.solve(std::span(&condition, 1), &found, std::chrono::steady_clock::now() + std::chrono::seconds(5)),
      Answer::yes);
  x.set_model(&found);
  EXPECT_EQ(x.value(sum), 0xdeadbeefu);
}

TEST(InferExpression, FlagsAreThoseOfVex) {
  std::mt19937_64 random(3);
  const auto value = [&] {
    const uint64_t edge = (uint64_t[]){0,      1,          0x7f,       0x80,       0xff,  0x7fff,    0x8000,
                                       0xffff, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull, 1ull << 63}[random() % 13];
    return random() % 2 != 0 ? edge : random() >> random() % 64;
  };
  for (int round = 0; round < 60'000; ++round) {
    const uint64_t operation = random() % 65, a = value(), b = value(),
                   c = random() % 2 != 0 ? random() & 0x8d5 : random() % 2;
    Expressions x;
    Model none;
    x.set_model(&none);
    const Thunk thunk{operation, x.constant(a, 64), x.constant(b, 64), x.constant(c, 64)};
    const Expr all = all_flags_of(x, thunk), carry = carry_of(x, thunk);
    ASSERT_EQ(x.value(all), amd64g_calculate_rflags_all(operation, a, b, c))
        << operation << " " << std::hex << a << " " << b << " " << c;
    ASSERT_EQ(x.value(carry), amd64g_calculate_rflags_c(operation, a, b, c)) << operation;
    const uint64_t condition = random() % 16;
    ASSERT_EQ(x.value(condition_of(x, condition, thunk)), amd64g_calculate_condition(condition, operation, a, b, c))
        << condition << " " << operation;
  }
}

}  // namespace
}  // namespace friday::infer
