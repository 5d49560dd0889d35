// What a seccomp filter may do with a call (core/shim/filter_outcomes.h), beside an interpreter of such filters that is
// given the arguments: random filters, calls and arguments.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "core/shim/filter_outcomes.h"

namespace friday::shim {
namespace {

using Code = std::vector<sock_filter>;

unsigned outcomes(const Code& code, FilterValue number) {
  std::vector<FilterState> states(code.size());
  return filter_outcomes(code.data(), static_cast<unsigned>(code.size()), number, states.data());
}

unsigned outcomes(const Code& code, uint32_t number) { return outcomes(code, FilterValue{number, true}); }

// As ___bpf_prog_run() in kernel/bpf/core.c does it, for the instructions that seccomp allows.
uint32_t run(const Code& code, const seccomp_data& data) {
  uint32_t a = 0, x = 0;
  std::array<uint32_t, BPF_MEMWORDS> memory{};
  for (size_t at = 0;; at++) {
    const sock_filter& it = code.at(at);
    const uint32_t operand = BPF_SRC(it.code) == BPF_X ? x : it.k;
    switch (BPF_CLASS(it.code)) {
      case BPF_RET: return BPF_RVAL(it.code) == BPF_A ? a : it.k;
      case BPF_ST: memory.at(it.k) = a; break;
      case BPF_STX: memory.at(it.k) = x; break;
      case BPF_MISC: (BPF_MISCOP(it.code) == BPF_TAX ? x : a) = BPF_MISCOP(it.code) == BPF_TAX ? a : x; break;
      case BPF_LD:
      case BPF_LDX: {
        uint32_t word = it.k;
        if (BPF_MODE(it.code) == BPF_ABS) memcpy(&word, reinterpret_cast<const char*>(&data) + it.k, sizeof word);
        if (BPF_MODE(it.code) == BPF_MEM) word = memory.at(it.k);
        if (BPF_MODE(it.code) == BPF_LEN) word = sizeof data;
        (BPF_CLASS(it.code) == BPF_LD ? a : x) = word;
        break;
      }
      case BPF_ALU:
        switch (BPF_OP(it.code)) {
          case BPF_ADD: a += operand; break;
          case BPF_SUB: a -= operand; break;
          case BPF_MUL: a *= operand; break;
          case BPF_DIV:
            if (operand == 0) return 0;
            a /= operand;
            break;
          case BPF_AND: a &= operand; break;
          case BPF_OR: a |= operand; break;
          case BPF_XOR: a ^= operand; break;
          case BPF_LSH: a <<= operand & 31; break;
          case BPF_RSH: a >>= operand & 31; break;
          case BPF_NEG: a = 0 - a; break;
          default: ADD_FAILURE() << "operation " << BPF_OP(it.code); return 0;
        }
        break;
      case BPF_JMP: {
        bool holds = false;
        switch (BPF_OP(it.code)) {
          case BPF_JA: at += it.k; continue;
          case BPF_JEQ: holds = a == operand; break;
          case BPF_JGT: holds = a > operand; break;
          case BPF_JGE: holds = a >= operand; break;
          case BPF_JSET: holds = a & operand; break;
          default: ADD_FAILURE() << "condition " << BPF_OP(it.code); return 0;
        }
        at += holds ? it.jt : it.jf;
        break;
      }
      default: ADD_FAILURE() << "class " << BPF_CLASS(it.code); return 0;
    }
  }
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  uint32_t below(uint32_t bound) { return std::uniform_int_distribution<uint32_t>(0, bound - 1)(engine_); }
  template <typename T>
  T one_of(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<uint32_t>(of.size()))];
  }

  sock_filter returned() {
    constexpr uint32_t kErrno = SECCOMP_RET_ERRNO | 1;
    const uint32_t said = one_of({SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW, SECCOMP_RET_LOG, kErrno,
                                  uint32_t{SECCOMP_RET_KILL_PROCESS}, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP});
    return BPF_STMT(BPF_RET | BPF_K, said);
  }
  // `left`: instructions behind this one.
  sock_filter instruction(uint32_t left) {
    const auto source = static_cast<uint16_t>(below(4) ? BPF_K : BPF_X);
    switch (below(12)) {
      case 0: return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4 * below(sizeof(seccomp_data) / 4));
      case 1:
      case 2: return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
      case 3:
        return BPF_STMT(static_cast<uint16_t>(one_of({BPF_LD, BPF_LDX}) | BPF_W | one_of({BPF_IMM, BPF_LEN})),
                        below(10));
      case 4:
        return BPF_STMT(static_cast<uint16_t>(one_of({BPF_LD | BPF_MEM, BPF_LDX | BPF_MEM, BPF_ST, BPF_STX}) | BPF_W),
                        below(BPF_MEMWORDS));
      case 5: return BPF_STMT(static_cast<uint16_t>(BPF_MISC | one_of({BPF_TAX, BPF_TXA})), 0);
      case 6: {
        const auto operation = static_cast<uint16_t>(
            one_of({BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND, BPF_OR, BPF_XOR, BPF_LSH, BPF_RSH, BPF_NEG}));
        return BPF_STMT(static_cast<uint16_t>(BPF_ALU | operation | source), 1 + below(31));
      }
      case 7: return BPF_STMT(BPF_JMP | BPF_JA, below(left));
      case 8: return returned();
      default: {
        const auto condition =
            static_cast<uint16_t>(BPF_JMP | one_of({BPF_JEQ, BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET}) | source);
        return BPF_JUMP(condition, below(8), static_cast<uint8_t>(below(std::min(left, 256u))),
                        static_cast<uint8_t>(below(std::min(left, 256u))));
      }
    }
  }
  Code filter() {
    Code code;
    const uint32_t length = 2 + below(40);
    while (code.size() + 1 < length) code.push_back(instruction(length - static_cast<uint32_t>(code.size()) - 1));
    code.push_back(returned());
    return code;
  }

 private:
  std::mt19937 engine_;
};

TEST(FilterOutcomes, HoldWhatAnInterpreterFinds) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  Random chance(seed);
  int certain = 0, several = 0;
  for (int n = 0; n < 20000; n++) {
    const Code code = chance.filter();
    seccomp_data data{};
    data.nr = static_cast<int>(chance.below(8));
    data.arch = AUDIT_ARCH_X86_64;
    const unsigned found = outcomes(code, static_cast<uint32_t>(data.nr)),
                   of_all = outcomes(code, FilterValue{0, false});
    for (int m = 0; m < 20; m++) {
      data.instruction_pointer = chance.below(8);
      for (__u64& argument : data.args) argument = chance.below(8);
      const unsigned said = filter_outcome_of(run(code, data));
      ASSERT_EQ(found & said, said) << "call " << data.nr;
      ASSERT_EQ(of_all & said, said) << "call " << data.nr;
    }
    ASSERT_EQ(of_all & found, found);
    ((found & (found - 1)) ? several : certain)++;
  }
  EXPECT_GT(certain, 5000);
  EXPECT_GT(several, 300);
}

Code load_number() { return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))}; }

TEST(FilterOutcomes, AreCertainWhereOnlyTheNumberDecides) {
  Code code = load_number();
  for (const uint32_t refused : {83u, 161u, 300u}) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  for (uint32_t number = 0; number < 500; number++)
    EXPECT_EQ(outcomes(code, number), number == 83 || number == 161 || number == 300 ? kFilterFails : kFilterAllows);
  EXPECT_EQ(outcomes(code, FilterValue{0, false}), unsigned{kFilterFails} | kFilterAllows);
}

TEST(FilterOutcomes, AreSeveralWhereAnArgumentDecides) {
  Code code = load_number();
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 10, 0, 3));
  code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])));
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1));
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  EXPECT_EQ(outcomes(code, 10u), unsigned{kFilterFails} | kFilterAllows);
  EXPECT_EQ(outcomes(code, 11u), unsigned{kFilterAllows});
}

TEST(FilterOutcomes, OfWhatTheKernelWouldRefuseAreUnknown) {
  EXPECT_EQ(outcomes({BPF_STMT(BPF_LD | BPF_IMM, 1)}, 0u), unsigned{kFilterOther});
  EXPECT_EQ(outcomes({BPF_STMT(BPF_JMP | BPF_JA, ~0u)}, 0u), unsigned{kFilterOther});
  EXPECT_EQ(outcomes({}, 0u), 0u);
}

}  // namespace
}  // namespace friday::shim
