#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <tuple>

#include "tests/unit/stop_support.h"

namespace friday {
namespace {

constexpr BreakpointOwner first{BreakpointOwner::Kind::stop_point, 1}, second{BreakpointOwner::Kind::stop_point, 2},
    client{BreakpointOwner::Kind::rsp_client, 1};

enum class Pads { near, far, none };

constexpr int rounds = 40;

std::map<std::string, int> count_hits(Debuggee& program) {
  std::map<uint64_t, std::string> names;
  for (const std::string& name : places) names[program.symbol("break_" + name)] = name;
  std::map<std::string, int> hits;
  while (program.go()) ++hits[names.at(program.registers().rip)];
  return hits;
}

// What single-stepping sees: how often each place is executed, and the checksum.
const std::map<std::string, int>& oracle(std::string& output) {
  static std::string printed;
  static const std::map<std::string, int> counts = [] {
    Debuggee program({STOP_BREAKS, std::to_string(rounds)});
    std::map<uint64_t, std::string> names;
    for (const std::string& name : places) names[program.symbol("break_" + name)] = name;
    uint64_t end = program.symbol("end_marker");
    program.run_to(program.symbol("start_marker"));
    std::map<std::string, int> seen;
    uint64_t before = 0;
    for (;;) {
      uint64_t rip = program.registers().rip;
      if (rip == end) break;
      // A rep instruction traps once for each iteration and is one execution.
      if (auto it = names.find(rip); it != names.end() && !(rip == before && it->second == "rep_stos"))
        ++seen[it->second];
      before = rip;
      if (!program.breakpoints.step_one(program.thread)) break;
    }
    printed = program.finish();
    return seen;
  }();
  output = printed;
  return counts;
}

class EveryInstruction : public testing::TestWithParam<Pads> {};

TEST_P(EveryInstruction, IsHitAndSteppedOver) {
  std::string expected_output;
  const auto& expected = oracle(expected_output);
  Debuggee program({STOP_BREAKS, std::to_string(rounds)});
  program.run_to(program.symbol("start_marker"));
  if (GetParam() == Pads::near) program.breakpoints.add_pad_area(program.map_pads(program.symbol("run_all")));
  if (GetParam() == Pads::far) program.breakpoints.add_pad_area(program.map_pads(0));
  for (const std::string& name : places)
    ASSERT_TRUE(program.breakpoints.insert(Addr{program.symbol("break_" + name)}, first)) << name;
  uint64_t steps = program.node.steps;
  auto hits = count_hits(program);
  EXPECT_EQ(program.finish(), expected_output);
  for (const std::string& name : places) EXPECT_EQ(hits[name], expected.contains(name) ? expected.at(name) : 0) << name;
  steps = program.node.steps - steps;
  int total = 0;
  for (auto& [name, count] : hits) total += count;
  // With pads at hand only the system call and the call through the stack are stepped in their place.
  if (GetParam() == Pads::near) {
    EXPECT_EQ(steps, static_cast<uint64_t>(hits["syscall"] + hits["call_on_stack"]));
  } else if (GetParam() == Pads::none) {
    EXPECT_GT(steps, static_cast<uint64_t>(total) / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Breakpoints, EveryInstruction, testing::Values(Pads::near, Pads::far, Pads::none),
                         [](const auto& info) {
                           return info.param == Pads::near  ? "NearPads"
                                  : info.param == Pads::far ? "FarPads"
                                                            : "NoPads";
                         });

TEST(Breakpoints, AreCountedByOwner) {
  Debuggee program({STOP_BREAKS, "3"});
  Addr at{program.symbol("run_all")};
  auto raw = [&] {
    std::byte byte{};
    EXPECT_TRUE(program.node.read_raw(at, {&byte, 1}));
    return byte;
  };
  std::byte original = raw();
  ASSERT_TRUE(program.breakpoints.insert(at, first));
  ASSERT_TRUE(program.breakpoints.insert(at, first));
  ASSERT_TRUE(program.breakpoints.insert(at, client));
  for (const BreakpointOwner owner : {first, client})
    EXPECT_EQ(program.breakpoints.places_of(owner), std::vector{at}) << "once, though it was inserted twice";
  EXPECT_EQ(raw(), std::byte{0xcc});
  EXPECT_EQ(program.get<std::byte>(at.value), original) << "reads show the program's own byte";
  ASSERT_TRUE(program.breakpoints.remove(at, first));
  EXPECT_EQ(raw(), std::byte{0xcc});
  ASSERT_TRUE(program.breakpoints.remove(at, second)) << "not there: no error";
  ASSERT_TRUE(program.breakpoints.remove_all(client));
  EXPECT_EQ(raw(), original);
  EXPECT_FALSE(program.breakpoints.contains(at));
  EXPECT_FALSE(program.breakpoints.insert(Addr{8}, first));
  EXPECT_TRUE(program.patches.empty());
}

TEST(Breakpoints, CodeThatChangesUnderABreakpointIsExecutedAsItIsNow) {
  Debuggee program({STOP_BREAKS, "4"});
  program.run_to(program.symbol("start_marker"));
  program.breakpoints.add_pad_area(program.map_pads(program.symbol("run_all")));
  uint64_t at = program.symbol("break_mov_imm");  // b8 6e 00 00 00: mov $110, %eax (getppid)
  ASSERT_TRUE(program.breakpoints.insert(Addr{at}, first));
  ASSERT_TRUE(program.go());
  program.put<uint32_t>(at + 1, 186);  // gettid
  ASSERT_TRUE(program.breakpoints.insert(Addr{at + 5}, first));
  ASSERT_TRUE(program.go());
  EXPECT_EQ(program.registers().rip, at + 5);
  EXPECT_EQ(program.registers().rax, 186u);
  program.put<uint8_t>(at, 0x3d);  // cmp $186, %eax: under the int3
  ASSERT_TRUE(program.go());
  EXPECT_EQ(program.get<uint8_t>(at), 0x3d);
  ASSERT_TRUE(program.go());
  EXPECT_NE(program.registers().rax, 186u);
}

TEST(Breakpoints, AFaultInAPadIsReportedAtTheProgramsAddress) {
  Debuggee program({STOP_BREAKS, "4"});
  program.run_to(program.symbol("start_marker"));
  program.breakpoints.add_pad_area(program.map_pads(program.symbol("run_all")));
  uint64_t at = program.symbol("break_call_register");
  ASSERT_TRUE(program.breakpoints.insert(Addr{at}, first));
  ASSERT_TRUE(program.go());
  auto values = program.registers();
  values.rsp = 0x1000;  // the push of the call faults
  ASSERT_TRUE(program.node.set_registers(program.thread, values));
  ASSERT_FALSE(program.go());
  EXPECT_EQ(program.last.signal, SIGSEGV);
  auto faulted = program.registers();
  EXPECT_TRUE(program.breakpoints.in_pad(Addr{faulted.rip}));
  EXPECT_EQ(program.breakpoints.program_address(Addr{faulted.rip}), Addr{at});
  EXPECT_EQ(faulted.rsp, 0x1000u);
}

TEST(Breakpoints, AThreadIsBroughtOutOfAPadAtAnyPointOfIt) {
  Debuggee program({STOP_BREAKS, "4"});
  program.run_to(program.symbol("start_marker"));
  program.breakpoints.add_pad_area(program.map_pads(program.symbol("run_all")));
  for (auto [place, steps, target] :
       {std::tuple{"mov_frame", 1, "sub_rsp"}, {"call_register", 1, "leaf_reg"}, {"call_direct", 1, "leaf"}}) {
    uint64_t at = program.symbol(std::string("break_") + place);
    ASSERT_TRUE(program.breakpoints.insert(Addr{at}, first));
    ASSERT_TRUE(program.go());
    ASSERT_EQ(program.registers().rip, at);
    auto values = program.registers();
    ASSERT_EQ(program.breakpoints.step_over(program.thread, values), StepOver::in_registers);
    ASSERT_TRUE(program.node.set_registers(program.thread, values));
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(program.breakpoints.step_one(program.thread));
    EXPECT_TRUE(program.breakpoints.in_pad(Addr{program.registers().rip}));
    ASSERT_TRUE(program.breakpoints.leave_pad(program.thread));
    std::string name = std::string(target).starts_with("leaf") ? target : std::string("break_") + target;
    EXPECT_EQ(program.registers().rip, program.symbol(name)) << place;
    ASSERT_TRUE(program.breakpoints.remove(Addr{at}, first));
  }
}

TEST(Breakpoints, DataStaysAsItIs) {
  Debuggee program({STOP_BREAKS, "1"});
  program.run_to(program.symbol("start_marker"));
  const auto mappings = program.node.mappings();
  ASSERT_TRUE(mappings);
  const auto data = std::ranges::find_if(
      *mappings, [](const Mapping& each) { return (each.protection & 7) == 3 && !each.stack; });  // rw-
  ASSERT_NE(data, mappings->end());
  const Addr stack{program.registers().rsp}, variable{data->low + 8};
  for (const auto& [address, owner, allowed] : {std::tuple(variable, first, false), std::tuple(variable, client, false),
                                                std::tuple(stack, first, false), std::tuple(stack, client, true)}) {
    std::array<std::byte, 1> before{}, after{};
    ASSERT_TRUE(program.node.read_raw(address, before));
    const auto inserted = program.breakpoints.insert(address, owner);
    EXPECT_EQ(inserted.has_value(), allowed);
    ASSERT_TRUE(program.node.read_raw(address, after));
    EXPECT_EQ(before, after);
    EXPECT_FALSE(program.breakpoints.contains(address));
    EXPECT_TRUE(program.breakpoints.remove(address, owner));
  }
}

TEST(Breakpoints, ManyHitsAndTheirCost) {
  constexpr uint64_t hits_wanted = 20000;
  Debuggee program({STOP_BREAKS, std::to_string(hits_wanted)});
  program.run_to(program.symbol("start_marker"));
  program.breakpoints.add_pad_area(program.map_pads(program.symbol("run_all")));
  ASSERT_TRUE(program.breakpoints.insert(Addr{program.symbol("run_all")}, first));
  uint64_t hits = 0;
  auto begin = std::chrono::steady_clock::now();
  while (program.go()) ++hits;
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(hits, hits_wanted);
  RecordProperty("us_per_hit", std::to_string(took.count() / static_cast<double>(hits)));
}

}  // namespace
}  // namespace friday
