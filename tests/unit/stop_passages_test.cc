#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/stop/passage_counter.h"
#include "core/stop/registers.h"
#include "tests/unit/stop_support.h"

namespace friday {
namespace {

constexpr int rounds = 40;
constexpr BreakpointOwner owner{BreakpointOwner::Kind::stop_point, 1};
// That no jump can displace: the instruction cannot be moved, or something leads into what would be displaced.
const std::set<std::string> kNotDisplaced{"call_direct",   "call_memory_relative",
                                          "call_on_stack", "call_register",
                                          "jmp_register",  "cmov",
                                          "endbr64",       "jl",
                                          "jmp_near",      "jmp_short",
                                          "jrcxz",         "jz",
                                          "leave",         "loop",
                                          "mov_frame",     "movaps_register",
                                          "pop",           "pop_last",
                                          "push",          "push_frame",
                                          "rep_stos",      "ret",
                                          "ret_imm",       "sub_rsp",
                                          "syscall",       "test"};

constexpr uint64_t kFlags = arithmetic_flags | direction_flag;

// Where the program comes by the place: the registers each time, and what it prints.
struct Passages {
  std::vector<user_regs_struct> registers;
  std::string printed;
};

void begin(Debuggee& program) {
  program.run_to(program.symbol("start_marker"));
  program.breakpoints.add_pad_area(program.map_pads(program.symbol("run_all")));
}

Passages by_breakpoints(const std::string& place) {
  Debuggee program({STOP_BREAKS, std::to_string(rounds)});
  begin(program);
  EXPECT_TRUE(program.breakpoints.insert(Addr{program.symbol("break_" + place)}, owner));
  Passages all;
  while (program.go()) all.registers.push_back(program.registers());
  all.printed = program.finish();
  return all;
}

// Runs to the next passage that is wanted. False if the program ends before.
bool go(Debuggee& program, PassageCounter& counter) {
  if (program.go_from_here()) return false;
  if (program.last.kind != NodeStop::Kind::signal) return false;
  user_regs_struct values = program.registers();
  EXPECT_TRUE(counter.contains(Addr{values.rip - 1}));
  if (!counter.hit(values).value_or(false)) {
    ADD_FAILURE() << "signal " << program.last.signal;
    return false;
  }
  EXPECT_TRUE(program.node.set_registers(program.thread, values));
  return true;
}

void expect_same(const user_regs_struct& is, const user_regs_struct& should) {
  EXPECT_EQ(is.rip, should.rip);
  EXPECT_EQ(general_registers(is), general_registers(should));
  EXPECT_EQ(is.eflags & kFlags, should.eflags & kFlags);
}

class EachPlace : public testing::TestWithParam<std::string> {};

TEST_P(EachPlace, StopsAtThePassageThatIsAskedFor) {
  const Passages all = by_breakpoints(GetParam());
  ASSERT_FALSE(all.registers.empty());
  std::mt19937_64 random(GetParam().size());
  for (int round = 0; round < 3; round++) {
    Debuggee program({STOP_BREAKS, std::to_string(rounds)});
    begin(program);
    PassageCounter counter(program.node, program.breakpoints, program.watches.stores());
    const uint64_t nth = 1 + random() % all.registers.size();
    const auto started = counter.start(Addr{program.symbol("break_" + GetParam())}, {.nth = nth, .registers = {}});
    ASSERT_TRUE(started) << started.error().message;
    ASSERT_EQ(*started, !kNotDisplaced.contains(GetParam()));
    if (!*started) return;
    ASSERT_TRUE(go(program, counter)) << "passage " << nth << " of " << all.registers.size();
    EXPECT_EQ(*counter.count(), nth);
    expect_same(program.registers(), all.registers[nth - 1]);
    ASSERT_TRUE(counter.pass(program.thread));
    EXPECT_FALSE(go(program, counter));
    EXPECT_EQ(program.finish(), all.printed);
  }
}

TEST_P(EachPlace, StopsWhereTheRegistersAreThoseThatAreAskedFor) {
  const Passages all = by_breakpoints(GetParam());
  Debuggee program({STOP_BREAKS, std::to_string(rounds)});
  begin(program);
  PassageCounter counter(program.node, program.breakpoints, program.watches.stores());
  const user_regs_struct wanted = all.registers[all.registers.size() / 2];
  const auto started = counter.start(Addr{program.symbol("break_" + GetParam())}, {.nth = 0, .registers = wanted});
  ASSERT_TRUE(started) << started.error().message;
  if (!*started) return;
  for (size_t i = 0; i < all.registers.size(); i++) {
    if (general_registers(all.registers[i]) != general_registers(wanted)) continue;
    ASSERT_TRUE(go(program, counter));
    EXPECT_EQ(*counter.count(), i + 1);
    expect_same(program.registers(), all.registers[i]);
    ASSERT_TRUE(counter.pass(program.thread));
  }
  EXPECT_FALSE(go(program, counter));
  EXPECT_EQ(program.finish(), all.printed);
}

TEST_P(EachPlace, IsAsBeforeWhenItIsNotCountedAnyMore) {
  const Passages all = by_breakpoints(GetParam());
  Debuggee program({STOP_BREAKS, std::to_string(rounds)});
  begin(program);
  PassageCounter counter(program.node, program.breakpoints, program.watches.stores());
  const Addr place{program.symbol("break_" + GetParam())};
  const auto code = [&] { return program.get<std::array<std::byte, 16>>(place.value); };
  const auto raw = [&] {
    std::array<std::byte, 16> bytes{};
    EXPECT_TRUE(program.node.read_raw(place, bytes));
    return bytes;
  };
  const auto before = raw();
  const auto started = counter.start(place, {.nth = 2, .registers = {}});
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(code(), before) << "the program's own code is shown";
  EXPECT_EQ(raw() != before, *started);
  ASSERT_TRUE(counter.stop());
  EXPECT_EQ(raw(), before);
  EXPECT_TRUE(program.patches.empty());
  EXPECT_EQ(program.finish(), all.printed);
}

TEST(PassageCounter, WaitsUntilNoThreadIsBetweenTheDisplacedInstructions) {
  Debuggee program({STOP_BREAKS, std::to_string(rounds)});
  begin(program);
  PassageCounter counter(program.node, program.breakpoints, program.watches.stores());
  const Addr place{program.symbol("break_nop")};  // of one byte, so that others are displaced with it
  program.run_to(place.value);
  EXPECT_TRUE(*counter.start(place, {.nth = 0, .registers = {}}));
  ASSERT_TRUE(counter.stop());
  for (uint64_t away = 1; away < 5; away = program.registers().rip - place.value) {
    ASSERT_TRUE(program.breakpoints.step_one(program.thread));
    const uint64_t rip = program.registers().rip;
    if (rip - place.value < 5) EXPECT_FALSE(*counter.start(place, {.nth = 0, .registers = {}})) << rip - place.value;
  }
  EXPECT_TRUE(*counter.start(place, {.nth = 0, .registers = {}}));
  EXPECT_EQ(program.finish(), by_breakpoints("nop").printed);
}

INSTANTIATE_TEST_SUITE_P(PassageCounter, EachPlace, testing::ValuesIn(places),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace friday
