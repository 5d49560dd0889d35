// friday-infer against real programs: one child has received bytes, another one zeros in their place. From what the
// first one does next (a system call and its arguments) the solver must find bytes with which the second one does the
// same.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/infer_support.h"

namespace friday::infer::test {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

struct Found {
  bool ok = false;
  std::vector<Symbol> symbols;
  Done last{};
};

// Follows the second child through `calls` calls. `missing`: how many of the first bytes it lacks.
Found infer(const std::string& code, const std::string& options, const std::vector<uint8_t>& input, size_t missing,
            int calls = 1) {
  Found found;
  const std::string program = compiled_target(code, options);
  std::vector<uint8_t> zeros = input;
  std::fill_n(zeros.begin(), missing, 0);
  Child first(program, input), second(program, zeros);
  if (!first.alive() || !second.alive()) {
    ADD_FAILURE() << "the target does not run";
    return found;
  }
  Solver solver(second);
  solver.unknown(second.input(), missing, 0);
  for (int call = 0; call < calls; ++call) {
    const auto wanted = first.next_call();
    if (!wanted) {
      ADD_FAILURE() << "the first child ended";
      return found;
    }
    const Answered answered = solver.run(1, second.all_registers(), demands_of_call(*wanted, 2));
    if (answered.died || answered.kind != Kind::done) {
      ADD_FAILURE() << "call " << call << ": failed: " << static_cast<int>(answered.failed.why) << " at " << std::hex
                    << answered.failed.address << " " << answered.text << (answered.died ? "died" : "");
      return found;
    }
    found.last = answered.done;
    apply(second, answered);
    solver.adopt();
    const auto reached = second.next_call();
    if (!reached) {
      ADD_FAILURE() << "the second child ended";
      return found;
    }
    EXPECT_EQ(reached->orig_rax, wanted->orig_rax);
    EXPECT_EQ(reached->rdi, wanted->rdi);
    EXPECT_EQ(reached->rsi, wanted->rsi);
    EXPECT_EQ(reached->rdi, answered.done.registers.general[7]);
    EXPECT_EQ(reached->rsp, answered.done.registers.general[4]);
    EXPECT_EQ(reached->rip, answered.done.registers.rip + 2);
    first.leave_call();
    second.leave_call();
  }
  found.symbols = solver.values(0, missing);
  found.ok = !testing::Test::HasFailure();
  return found;
}

std::string values_in(const Found& found) {
  std::string text;
  for (const Symbol& each : found.symbols) text += static_cast<char>(each.value);
  return text;
}
size_t count_of(const Found& found, Sure sure) {
  return static_cast<size_t>(
      std::count_if(found.symbols.begin(), found.symbols.end(), [&](const Symbol& each) { return each.sure == sure; }));
}

class InferEndToEnd : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, InferEndToEnd, testing::Values("-O0", "-O2", "-O3 -mavx2"));

TEST_P(InferEndToEnd, NumberIsPassedOn) {
  const Found found = infer("void target(unsigned char* p) { uint32_t n; memcpy(&n, p + 4, 4); say(n, n * 3 + 1); }",
                            GetParam(), bytes_of("abcd\x12\x34\x56\x78xxxx"), 12);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(values_in(found).substr(4, 4), "\x12\x34\x56\x78");
  EXPECT_EQ(count_of(found, Sure::proved), 4u);
  EXPECT_EQ(count_of(found, Sure::free), 8u);
}

TEST_P(InferEndToEnd, NothingDependsOnIt) {
  const Found found =
      infer("void target(unsigned char* p) { unsigned char copy[16]; memcpy(copy, p, 16); say(p[20], 2); }", GetParam(),
            bytes_of("abcdefghijklmnopqrstuvwxyz"), 16);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(count_of(found, Sure::free), 16u);
}

TEST_P(InferEndToEnd, OrdersOneAfterTheOther) {
  const Found found = infer(R"(
    void target(unsigned char* p) {
      for (int i = 0; i < 8; i++) switch (p[i]) {
        case 'p': say(1, 0); break;
        case 'u': say(2, 0); break;
        case 'e': say(3, 0); break;
        case 'g': say(4, 0); break;
        case 'G': say(5, 0); break;
        default: return;
      }
      say(6, 0);
    })",
                            GetParam(), bytes_of("puegGGeu"), 8, 9);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(values_in(found), "puegGGeu");
  EXPECT_EQ(count_of(found, Sure::proved), 8u);
}

TEST_P(InferEndToEnd, LengthField) {
  const Found found = infer(R"(
    void target(unsigned char* p) {
      unsigned length = p[0] | p[1] << 8, sum = 0;
      if (length > 300) { say(1, 1); return; }
      for (unsigned i = 0; i < length; i++) sum += p[16 + i];
      say(2, sum);
    })",
                            GetParam(), bytes_of(std::string("\x0a\0", 2) + "..............abcdefghijklmno"), 2);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(found.symbols[0].value, 10);
}

TEST_P(InferEndToEnd, CipherWithKnownPlainText) {
  const std::string plain = "The quick brown fox jumps over the lazy dog, and then once more";
  std::string input = "key!";
  for (size_t i = 0; i < plain.size() + 1; i++)
    input += static_cast<char>((i < plain.size() ? plain[i] : 0) ^ "key!"[i % 4]);
  const Found found = infer(R"(
    static const char known[] = "The quick brown fox jumps over the lazy dog, and then once more";
    void target(unsigned char* p) {
      char plain[64];
      for (int i = 0; i < 64; i++) plain[i] = p[4 + i] ^ "key!"[i % 4];
      if (memcmp(plain, known, 64) == 0) say(1, 0);
      else say(2, 0);
    })",
                            GetParam(), bytes_of(input), input.size());
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(values_in(found).substr(4), input.substr(4));
  EXPECT_EQ(count_of(found, Sure::proved), 64u);
}

TEST_P(InferEndToEnd, NumberInText) {
  const Found found = infer(R"(
    void target(unsigned char* p) {
      const char* digits = strchr((char*)p, ' ');
      if (digits && memcmp(p, "move", 4) == 0) say(strtol(digits + 1, 0, 10), 7);
      else say(0, 0);
    })",
                            GetParam(), bytes_of("move 4321\nand more"), 18);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(values_in(found).substr(0, 4), "move");
}

TEST_P(InferEndToEnd, Checksum) {
  const Found found = infer(R"(
    void target(unsigned char* p) {
      uint32_t sum = 0, check;
      memcpy(&check, p + 24, 4);
      for (int i = 0; i < 24; i++) sum = sum * 31 + p[i];
      say(sum == check, 0);
    })",
                            GetParam(),
                            [] {
                              std::vector<uint8_t> bytes = bytes_of("an arbitrary text, 24 by");
                              uint32_t sum = 0;
                              for (const uint8_t each : bytes) sum = sum * 31 + each;
                              for (int i = 0; i < 4; i++) bytes.push_back(static_cast<uint8_t>(sum >> (8 * i)));
                              return bytes;
                            }(),
                            24);
  ASSERT_TRUE(found.ok);
}

TEST_P(InferEndToEnd, CyclicRedundancyCheckByTable) {
  const std::string code = R"(
    static uint32_t table[256];
    void target(unsigned char* p) {
      for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
        table[i] = c;
      }
      uint32_t crc = ~0u;
      for (int i = 0; i < 8; i++) crc = table[(crc ^ p[i]) & 255] ^ crc >> 8;
      say(~crc, 0);
    })";
  const Found found = infer(code, GetParam(), bytes_of("12345678...."), 8);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(count_of(found, Sure::proved), 0u);
}

TEST_P(InferEndToEnd, WordInATable) {
  const Found found = infer(R"(
    static const struct { const char* word; int place; } words[] = {{"north", 101}, {"east", 202}, {"south", 303}, {"west", 404}, {"up", 505}, {"down", 606}};
    void target(unsigned char* p) {
      char word[16] = {0};
      memcpy(word, p, 15);
      word[strcspn(word, " ")] = 0;
      for (unsigned i = 0; i < 6; i++) if (strcmp(word, words[i].word) == 0) say(words[i].place, 1);
      say(0, 0);
    })",
                            GetParam(), bytes_of("south of here and there"), 20);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(values_in(found).substr(0, 5), "south");
}

TEST_P(InferEndToEnd, ReadThroughAnAddress) {
  const Found found = infer(R"(
    static int squares[200];
    void target(unsigned char* p) {
      for (int i = 0; i < 200; i++) squares[i] = i * i * 7;
      if (p[0] < 200) say(squares[p[0]], squares[p[1] % 100]);
      say(-1, -1);
    })",
                            GetParam(), bytes_of("\x9b\x11.."), 2);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(found.symbols[0].value, 0x9b);
  EXPECT_EQ(found.symbols[0].sure, Sure::proved);
  EXPECT_EQ(found.symbols[1].sure, Sure::inferred);
}

TEST_P(InferEndToEnd, WriteThroughAnAddress) {
  const Found found = infer(R"(
    void target(unsigned char* p) {
      unsigned char places[32] = {0};
      places[p[0] & 31] = p[1];
      say(places[17], places[16]);
    })",
                            GetParam(), bytes_of("\x11\x77.."), 2);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(found.symbols[1].value, 0x77);
}

TEST_P(InferEndToEnd, StateOverSeveralCalls) {
  const Found found = infer(R"(
    static uint64_t kept;
    void target(unsigned char* p) {
      uint64_t n;
      memcpy(&n, p, 8);
      kept = n * 0x9e3779b97f4a7c15;
      say(1, 1);
      say(kept >> 32, 2);
      say(kept & 0xffffffff, 3);
      if (n % 2) say(4, 4);
      else say(5, 5);
    })",
                            GetParam(), bytes_of("ABCDEFGH"), 8, 4);
  ASSERT_TRUE(found.ok);
  EXPECT_EQ(values_in(found), "ABCDEFGH");
  EXPECT_EQ(count_of(found, Sure::proved), 8u);
}

TEST_P(InferEndToEnd, ImpossibleIsSaid) {
  const std::string program =
      compiled_target("void target(unsigned char* p) { say(p[0] * 2, p[1] ? 1 : 2); }", GetParam());
  Child child(program, std::vector<uint8_t>(8));
  Solver solver(child);
  solver.unknown(child.input(), 2, 0);
  const Answered odd = solver.run(1, child.all_registers(), {{0, kSay, 4}, {7, 33, 8}});
  ASSERT_EQ(odd.kind, Kind::failed);
  EXPECT_EQ(odd.failed.why, Why::impossible);
  const Answered even = solver.run(1, child.all_registers(), {{0, kSay, 4}, {7, 34, 8}, {6, 1, 8}});
  EXPECT_EQ(even.kind, Kind::done);
}

TEST_P(InferEndToEnd, EndlessLoopIsGivenUp) {
  const std::string program =
      compiled_target("void target(unsigned char* p) { volatile int i = 0; while (!i) ; }", GetParam());
  Child child(program, std::vector<uint8_t>(8));
  Solver::Limits limits;
  limits.instructions = 1'000'000;
  Solver solver(child, limits);
  const Answered answered = solver.run(1, child.all_registers(), {{0, kSay, 4}});
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::too_long);
}

TEST_P(InferEndToEnd, HashThatCannotBeInvertedIsGivenUpInTime) {
  const std::string program = compiled_target(R"(
    void target(unsigned char* p) {
      uint64_t a = 0x123456789abcdef, b = 0xfedcba987654321;
      for (int round = 0; round < 20; round++) for (int i = 0; i < 32; i += 8) {
        uint64_t n;
        memcpy(&n, p + i, 8);
        a = (a ^ n) * 0x9e3779b97f4a7c15 + (b >> 23 | b << 41);
        b = (b + a) * (a | 1) ^ a >> 17;
      }
      say(a, b);
    })",
                                              GetParam());
  Child child(program, std::vector<uint8_t>(64));
  Solver::Limits limits;
  limits.milliseconds = 2'000;
  Solver solver(child, limits);
  solver.unknown(child.input(), 32, 0);
  const Answered answered =
      solver.run(1, child.all_registers(), {{0, kSay, 4}, {7, 0x0123456789, 8}, {6, 0x9876543210, 8}});
  ASSERT_FALSE(answered.died);
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::time);
}

}  // namespace
}  // namespace friday::infer::test
