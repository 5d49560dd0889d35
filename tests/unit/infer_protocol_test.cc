// What friday-infer answers beside the ends of runs: which memory depends on symbols, what becomes of it, ends at
// instructions whose result is recorded, limits, and messages that make no sense.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/infer_support.h"

namespace friday::infer::test {
namespace {

uint64_t bytes_in(const std::vector<Range>& ranges) {
  uint64_t sum = 0;
  for (const Range& each : ranges) sum += each.length;
  return sum;
}

const char kCopies[] = R"(
  unsigned char copy[64];
  void target(unsigned char* p) { memcpy(copy + 8, p, 16); say(copy, 0); memset(copy, 0, 12); say(copy, 1); say(copy, 2); })";

TEST(InferProtocol, ShadowsFollowCopies) {
  Child child(compiled_target(kCopies, "-O1"), std::vector<uint8_t>(32));
  Solver solver(child);
  solver.unknown(child.input(), 16, 0);
  ASSERT_EQ(bytes_in(solver.shadow()), 16u);
  Answered answered = solver.run(7, child.all_registers(), {{0, kSay, 4}});
  ASSERT_EQ(answered.kind, Kind::done);
  EXPECT_FALSE(answered.done.model_changed);
  EXPECT_EQ(bytes_in(solver.shadow()), 16u) << "what is not adopted must not be seen";
  answered = solver.run(7, child.all_registers(), {{0, kSay, 4}});
  solver.adopt();
  const uint64_t copy = child.next_call()->rdi;
  child.leave_call();
  bool found = false;
  for (const Range& each : solver.shadow())
    found = found || (each.address <= copy + 8 && each.address + each.length >= copy + 24);
  EXPECT_TRUE(found);
  // Four bytes of the copy are overwritten.
  const uint64_t before = bytes_in(solver.shadow());
  answered = solver.run(7, child.all_registers(), {{0, kSay, 4}});
  ASSERT_EQ(answered.kind, Kind::done);
  solver.adopt();
  EXPECT_EQ(bytes_in(solver.shadow()), before - 4);
  // The kernel writes over the rest.
  for (const Range& each : solver.shadow()) solver.known(each.address, each.length);
  EXPECT_TRUE(solver.shadow().empty());
  for (const Symbol& each : solver.values(0, 16)) EXPECT_EQ(each.sure, Sure::free);
}

TEST(InferProtocol, TheCoreJudgesWhetherAnEndIsTheRightOne) {
  Child child(compiled_target(R"(
    void target(unsigned char* p) {
      if (p[0] == 7) strcpy(p + 8, "stored"); else if (p[0] > 200) strcpy(p + 8, "failed"); else strcpy(p + 8, "empty");
      say(p + 8, 1);
    })",
                              "-O1"),
              std::vector<uint8_t>(16));
  Solver solver(child);
  solver.unknown(child.input(), 1, 0);
  // The call has the address of the text, so what is demanded holds on all three paths.
  std::set<std::string> seen;
  const auto is_stored = [&](const Arrived& arrived) {
    EXPECT_EQ(arrived.end, End::system_call);
    EXPECT_FALSE(solver.look(8, 1).first.exists);
    const Looked input = solver.look(child.input(), 1).first;
    EXPECT_TRUE(input.exists && input.depends);
    const auto [about, bytes] = solver.look(child.input() + 8, 7);
    EXPECT_TRUE(about.exists && !about.depends);
    const std::string text(reinterpret_cast<const char*>(bytes.data()));
    seen.insert(text);
    return text == "stored";
  };
  const Answered answered = solver.run(1, child.all_registers(), {{0, kSay, 4}, {6, 1, 8}}, is_stored);
  ASSERT_EQ(answered.kind, Kind::done);
  EXPECT_TRUE(seen.contains("empty")) << "the path of zeros";
  solver.adopt();
  const Symbol symbol = solver.values(0, 1)[0];
  EXPECT_EQ(symbol.value, 7);
  EXPECT_EQ(symbol.sure, Sure::proved);
}

TEST(InferProtocol, NoEndIsRight) {
  Child child(compiled_target("void target(unsigned char* p) { say(p[0] > 9, 0); }", "-O1"), std::vector<uint8_t>(16));
  Solver solver(child);
  solver.unknown(child.input(), 1, 0);
  const Answered answered = solver.run(1, child.all_registers(), {{0, kSay, 4}}, [](const Arrived&) { return false; });
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::impossible);
  EXPECT_EQ(solver.run(1, child.all_registers(), {{0, kSay, 4}}).kind, Kind::done);
}

TEST(InferProtocol, ValuesThatAreInTheProcessAreReplaced) {
  std::vector<uint8_t> input(32, 0x55);
  Child child(compiled_target("void target(unsigned char* p) { say(p[0], p[1]); }", "-O1"), input);
  Solver solver(child);
  solver.unknown(child.input(), 2, 0);
  const Answered answered = solver.run(1, child.all_registers(), {{0, kSay, 4}, {7, 200, 8}});
  ASSERT_EQ(answered.kind, Kind::done);
  EXPECT_TRUE(answered.done.model_changed);
  apply(child, answered);
  const auto call = child.next_call();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->rdi, 200u);
  EXPECT_EQ(call->rsi, 0u) << "a symbol of which nothing is known is 0";
}

TEST(InferProtocol, RunsEndAtRecordedInstructions) {
  Child child(compiled_target(R"(
    void target(unsigned char* p) { unsigned long n; memcpy(&n, p, 8); n *= 3; unsigned long t = __builtin_ia32_rdtsc(); say(n, t); })",
                              "-O2"),
              std::vector<uint8_t>(32));
  Solver solver(child);
  solver.unknown(child.input(), 8, 0);
  const Answered first = solver.run(1, child.all_registers(), {});
  ASSERT_EQ(first.kind, Kind::done);
  EXPECT_EQ(first.done.end, End::instruction);
  solver.adopt();
  // As the core would go on: the instruction is done, with a result from the recording.
  Registers registers = first.done.registers;
  registers.general[0] = 1000;
  registers.general[2] = 0;
  registers.rip += 2;
  const Answered second = solver.run(1, registers, {{0, kSay, 4}, {7, 333, 8}, {6, 1000, 8}});
  ASSERT_EQ(second.kind, Kind::done);
  EXPECT_EQ(second.done.end, End::system_call);
  solver.adopt();
  EXPECT_EQ(solver.values(0, 1)[0].value, 111);
}

TEST(InferProtocol, PathsAreLimited) {
  Child child(compiled_target(R"(
    void target(unsigned char* p) { int n = 0; for (int i = 0; i < 32; i++) if (p[i] == i) n++; if (n == 31 && p[40]) say(1, 1); say(0, 0); })",
                              "-O0"),
              std::vector<uint8_t>(64));
  Solver::Limits limits;
  limits.paths = 20;
  Solver solver(child, limits);
  solver.unknown(child.input(), 32, 0);
  const Answered answered = solver.run(1, child.all_registers(), {{0, kSay, 4}, {7, 1, 8}});
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::too_many_paths);
  // The solver is as before.
  EXPECT_EQ(solver.run(1, child.all_registers(), {{0, kSay, 4}, {7, 0, 8}}).kind, Kind::done);
}

TEST(InferProtocol, MemoryIsLimited) {
  const std::string code = R"(
    void target(unsigned char* p) { volatile unsigned long out; unsigned long h = 0; for (unsigned i = 0;; i++) { h = h * 31 + p[i & 63]; h ^= h >> 7; out = h; } })";
  Child child(compiled_target(code, "-O1"), std::vector<uint8_t>(64));
  Solver::Limits limits;
  limits.memory = 400 << 20;
  limits.instructions = 1'000'000'000;
  Solver solver(child, limits);
  solver.unknown(child.input(), 64, 0);
  const Answered answered = solver.run(1, child.all_registers(), {{0, kSay, 4}});
  ASSERT_FALSE(answered.died);
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::time);
  EXPECT_EQ(bytes_in(solver.shadow()), 64u);
}

TEST(InferProtocol, MemoryThatIsNotThereIsSaid) {
  Child child(compiled_target("void target(unsigned char* p) { say(*(volatile char*)8, 0); }", "-O1"),
              std::vector<uint8_t>(8));
  Solver solver(child);
  const Answered answered = solver.run(1, child.all_registers(), {});
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::address);
}

TEST(InferProtocol, UnknownInstructionsAreSaid) {
  Child child(compiled_target(
                  R"(void target(unsigned char* p) { asm volatile("vpaddd %zmm1, %zmm2, %zmm3"); say(1, 0); })", "-O1"),
              std::vector<uint8_t>(8));
  Solver solver(child);
  const Answered answered = solver.run(1, child.all_registers(), {});
  ASSERT_EQ(answered.kind, Kind::failed);
  EXPECT_EQ(answered.failed.why, Why::instruction);
  EXPECT_NE(answered.text.find("vpaddd"), std::string::npos) << answered.text;
}

TEST(InferProtocol, SenselessMessagesEndTheProgram) {
  Child child(compiled_target("void target(unsigned char* p) { say(1, 0); }", "-O1"), std::vector<uint8_t>(8));
  Solver solver(child);
  const uint32_t cut = 5;
  solver.send(Kind::run, &cut, sizeof(cut));
  EXPECT_TRUE(solver.run(1, child.all_registers(), {}).died);
}

}  // namespace
}  // namespace friday::infer::test
