// Machine code as friday-infer executes it, against the processor: registers and memory at the next system call, with
// plain input, with input that is symbols, and under other values of these that lead the same way. Programs are random
// ones and some that use what compilers make of particular things.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <random>

#include "core/infer/solver/search.h"
#include "tests/unit/infer_support.h"

namespace friday::infer::test {
namespace {

constexpr size_t kInput = 64;
constexpr uint64_t kStackCompared = 4096;

// Statements over variables of all widths.
std::string random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](std::initializer_list<const char*> choices) {
    return std::string(choices.begin()[random() % choices.size()]);
  };
  std::string code = "static uint64_t kept[16];\nvoid target(unsigned char* p) {\n";
  const char* types[] = {"uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t", "int32_t", "uint64_t", "int64_t"};
  for (int i = 0; i < 8; ++i) {
    code += std::string("  ") + types[i] + " v" + std::to_string(i) + "; memcpy(&v" + std::to_string(i) + ", p + " +
            std::to_string(8 * i) + ", sizeof v" + std::to_string(i) + ");\n";
  }
  const auto variable = [&] { return "v" + std::to_string(random() % 8); };
  const auto operand = [&] {
    return random() % 4 == 0   ? std::to_string(static_cast<int32_t>(random()))
           : random() % 4 == 0 ? std::to_string(random() % 70)
                               : variable();
  };
  for (int i = 0; i < 30; ++i) {
    const std::string to = variable(), a = operand(), b = operand();
    switch (random() % 12) {
      case 0: code += "  " + to + " = " + a + " / (" + b + " | 1u);\n"; break;
      case 1: code += "  " + to + " = (int64_t)" + a + " % (int64_t)((" + b + " & 0xfff) + 1);\n"; break;
      case 2: code += "  " + to + " = " + variable() + one_of({" << ", " >> "}) + "(" + b + " & 7);\n"; break;
      case 3:
        code += "  " + to + " = " + a + one_of({" < ", " == ", " <= ", " > "}) + b + " ? " + variable() + " : " +
                variable() + ";\n";
        break;
      case 4:
        code += "  if (" + a + one_of({" < ", " != ", " >= "}) + b + ") " + to + one_of({" += ", " ^= ", " -= "}) +
                operand() + ";\n";
        break;
      case 5: code += "  kept[" + std::to_string(random() % 16) + "] = " + a + " * 3ull + " + b + ";\n"; break;
      case 6: code += "  " + to + " = kept[" + std::to_string(random() % 16) + "];\n"; break;
      case 7:
        code += "  " + to + " = __builtin_" + one_of({"popcountll", "bswap32", "bswap64"}) + "(" + a + ");\n";
        break;
      case 8:
        code +=
            "  " + to + " = (unsigned __int128)(uint64_t)" + variable() + " * (uint64_t)" + variable() + " >> 64;\n";
        break;
      case 9: code += "  for (int i = 0; i < (" + a + " & 3); i++) " + to + " = " + to + " * 31 + " + b + ";\n"; break;
      default: code += "  " + to + " = " + a + one_of({" + ", " - ", " * ", " & ", " | ", " ^ "}) + b + ";\n"; break;
    }
  }
  return code +
         "  for (int i = 0; i < 16; i++) v6 += kept[i];\n  say(v6 ^ v0 ^ v1, (uint64_t)v7 + v2 + v3 + v4 + v5);\n}\n";
}

const char* const kPrograms[] = {
    // Vectors of several widths, by the compiler.
    R"(static unsigned char out[64]; static unsigned short wide[64]; static int sums[64];
       void target(unsigned char* p) { for (int i = 0; i < 64; i++) out[i] = p[i] ^ 0x5a; for (int i = 0; i < 64; i++) wide[i] = out[i] * 3;
         for (int i = 0; i < 64; i++) sums[i] = wide[i] - (p[i] > 100 ? 7 : p[i]); int all = 0; for (int i = 0; i < 64; i++) all += sums[i]; say(all, out[5]); })",
    // Characters of a text.
    R"(void target(unsigned char* p) { int letters = 0, digits = 0; for (int i = 0; i < 64; i++) { if (isalpha(p[i])) letters++; if (isdigit(p[i])) digits++; p[i] = toupper(p[i]); } say(letters, digits); })",
    // A switch, by a table.
    R"(void target(unsigned char* p) { long n = 0; for (int i = 0; i < 12; i++) switch (p[i] & 15) { case 0: n += 3; break; case 1: n *= 5; break; case 2: n ^= 77; break;
         case 3: n -= 9; break; case 4: n <<= 1; break; case 5: n = ~n; break; case 6: n += i; break; case 7: n |= 1; break; default: n += 2; } say(n, 1); })",
    // Reads and writes at places that the input says.
    R"(void target(unsigned char* p) { unsigned char s[256]; for (int i = 0; i < 256; i++) s[i] = i; unsigned j = 0; for (int i = 0; i < 16; i++) { j = (j + s[i] + p[i]) & 255; unsigned char t = s[i]; s[i] = s[j]; s[j] = t; } say(s[3], s[7]); })",
    // Floating point, which is executed with the values of the model.
    R"(void target(unsigned char* p) { double d = p[0] + p[1] / 3.0; float f = p[2] * 1.5f; say((long)(d * 1000), (long)(f * 7)); })",
    // Atomic operations, and numbers with carry.
    R"(static long n; void target(unsigned char* p) { __sync_fetch_and_add(&n, p[0]); __sync_bool_compare_and_swap(&n, (long)p[1], 5); unsigned long a, b, r; memcpy(&a, p + 8, 8); memcpy(&b, p + 16, 8);
         int over = __builtin_add_overflow(a, b, &r); long m; over += 2 * __builtin_smull_overflow((long)a, (long)b, &m); say(r + over, n ^ m); })",
    // Checks by the processor's own instruction.
    R"(__attribute__((target("sse4.2"))) void target(unsigned char* p) { unsigned long c = ~0u; for (int i = 0; i < 64; i += 8) { unsigned long n; memcpy(&n, p + i, 8); c = __builtin_ia32_crc32di(c, n); } say(c, 2); })",
    // Calls of the C library, and of its dynamic linker.
    R"(static int order(const void* a, const void* b) { return *(const char*)a - *(const char*)b; }
       void target(unsigned char* p) { char text[80], copy[80]; snprintf(text, sizeof text, "%d,%s,%x", 42, "abc", 0xbeef); strcpy(copy, text); long n = strtol("-123abc", 0, 10);
         qsort(copy, 10, 1, order); say(n + copy[0], strlen(text) + p[0]); })",
};

class Processor {
 public:
  Processor(Child& child, const std::vector<uint8_t>& input, bool symbols) {
    descriptor_ = open(("/proc/" + std::to_string(child.pid()) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
    memory.attach(descriptor_);
    if (symbols) {
      model = input;
      for (uint32_t i = 0; i < input.size(); ++i) memory.set_start_shadow(child.input() + i, x.symbol(i));
    }
    x.set_model(&model);
    for (const Summary& each : child.functions()) blocks.add_summary(each.address, each.function);
    set_registers(child.all_registers(), &start.state);
  }
  ~Processor() { close(descriptor_); }
  PathEnd run() { return runner.run(start, 10'000'000, std::chrono::steady_clock::now() + std::chrono::seconds(20)); }

  Expressions x;
  Memory memory{x};
  Machine machine{memory};
  Blocks blocks{memory, machine.frame()};
  Symbolic symbolic{machine, x};
  Runner runner{machine, blocks, symbolic};
  StartState start;
  Model model;

 private:
  int descriptor_ = -1;
};

// What the program has at its end: its registers, its stack and its data.
void compare(Processor& processor, const PathEnd& end, const Registers& real, Child& child, const std::string& what) {
  ASSERT_FALSE(end.failed) << what << ": " << static_cast<int>(end.why) << " at " << std::hex << end.address << " "
                           << end.text;
  const Registers found = registers_of(processor.machine.state);
  EXPECT_EQ(end.address + 2, real.rip) << what;
  // The other registers belong to who is called: functions that are executed as a whole leave other things there.
  for (const int i : {3, 4, 5, 6, 7, 12, 13, 14, 15}) {
    EXPECT_EQ(found.general[i], real.general[i]) << what << ", register " << i;
  }
  std::vector<uint8_t> bytes(kInput);
  ASSERT_TRUE(processor.memory.read(child.input(), bytes));
  EXPECT_EQ(bytes, child.read(child.input(), kInput)) << what;
  bytes.resize(kStackCompared);
  const size_t size = processor.memory.read_some(real.general[4], bytes);
  bytes.resize(size);
  EXPECT_EQ(bytes, child.read(real.general[4], size)) << what;
}

void check_program(const std::string& code, const std::string& options, uint64_t seed) {
  const std::string program = compiled_target(code, options);
  ASSERT_FALSE(program.empty()) << code;
  std::mt19937_64 random(seed);
  std::vector<uint8_t> input(kInput);
  for (uint8_t& each : input) each = static_cast<uint8_t>(random() % 3 != 0 ? random() : random() % 40);
  Child child(program, input);
  ASSERT_TRUE(child.alive());
  Processor plain(child, input, false), symbolic(child, input, true);
  const PathEnd plain_end = plain.run(), end = symbolic.run();

  // Other values that lead the same way: what the expressions say of the end is where such a run ends.
  std::vector<Expr> conditions, finals;
  for (const Decision& each : symbolic.symbolic.decisions()) conditions.push_back(each.holds);
  for (unsigned i = 0; i < 16; ++i) finals.push_back(symbolic.symbolic.register_at(offset_of_general(i), 8));
  child.next_call();
  const Registers real = child.all_registers();
  compare(plain, plain_end, real, child, options + " plain, seed " + std::to_string(seed));
  compare(symbolic, end, real, child, options + " symbolic, seed " + std::to_string(seed));
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(plain_end.instructions, end.instructions);
  Questions questions(symbolic.x);
  Model other = input;
  for (uint8_t& each : other) each = static_cast<uint8_t>(random() % 3 == 0 ? random() : each);
  if (questions.solve(conditions, &other, std::chrono::steady_clock::now() + std::chrono::seconds(2)) != Answer::yes)
    return;
  Child second(program, other);
  second.next_call();
  const Registers other_real = second.all_registers();
  symbolic.x.set_model(&other);
  EXPECT_EQ(symbolic.x.value(finals[7]), other_real.general[7]) << options << " other model, seed " << seed << "\n"
                                                                << code;
  EXPECT_EQ(symbolic.x.value(finals[6]), other_real.general[6]) << options << " other model, seed " << seed;
}

class InferCode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, InferCode, testing::Values("-O0", "-O2", "-O3 -mavx2 -mbmi2"));

TEST_P(InferCode, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    check_program(random_program(seed), GetParam(), seed);
    if (HasFailure()) return;
  }
}

TEST_P(InferCode, ParticularPrograms) {
  for (const char* program : kPrograms) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      check_program(program, GetParam(), seed);
      if (HasFailure()) ADD_FAILURE() << program;
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace friday::infer::test
