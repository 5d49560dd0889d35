// The parts of the stop engine that touch no process: patched bytes, stop points, bytecode.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/stop/agent.h"
#include "core/stop/patched_bytes.h"
#include "core/stop/stop_points.h"

namespace friday {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (int value : values) result.push_back(std::byte{static_cast<uint8_t>(value)});
  return result;
}

TEST(PatchedBytes, ReadsShowOriginalsAndWritesKeepPatches) {
  PatchedBytes table;
  auto memory = bytes({0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(table.add_window({0x1002, PatchKind::call_site, bytes({2, 3, 4}), bytes({0xe9, 8, 9})}));
  ASSERT_TRUE(table.add_breakpoint(Addr{0x1006}, std::byte{6}));
  std::copy_n(bytes({0xe9, 8, 9}).begin(), 3, memory.begin() + 2);
  ASSERT_TRUE(table.add_breakpoint(Addr{0x1002}, memory[2]));
  memory[2] = memory[6] = std::byte{0xcc};

  auto seen = memory;
  table.show_original(Addr{0x1000}, seen);
  EXPECT_EQ(seen, bytes({0, 1, 2, 3, 4, 5, 6, 7}));
  auto part = std::vector(memory.begin() + 3, memory.begin() + 5);
  table.show_original(Addr{0x1003}, part);
  EXPECT_EQ(part, bytes({3, 4}));
  auto executed = memory;
  table.hide_breakpoints(Addr{0x1000}, executed);
  EXPECT_EQ(executed, bytes({0, 1, 0xe9, 8, 9, 5, 6, 7}));

  auto written = bytes({13, 14, 15, 16});  // at 0x1003: two bytes of the window, one free, one breakpoint
  table.keep_patches(Addr{0x1003}, written);
  EXPECT_EQ(written, bytes({8, 9, 15, 0xcc}));
  std::copy(written.begin(), written.end(), memory.begin() + 3);
  seen = memory;
  table.show_original(Addr{0x1000}, seen);
  EXPECT_EQ(seen, bytes({0, 1, 2, 13, 14, 15, 16, 7}));
  EXPECT_EQ(table.under_breakpoint(Addr{0x1006}), std::byte{16});
}

TEST(PatchedBytes, RefusesWhatWouldBreakAPatch) {
  PatchedBytes table;
  ASSERT_TRUE(table.add_window({0x1000, PatchKind::call_site, bytes({1, 2, 3, 4, 5}), bytes({0xe9, 0, 0, 0, 0})}));
  EXPECT_FALSE(table.add_breakpoint(Addr{0x1003}, std::byte{0}));
  EXPECT_TRUE(table.add_breakpoint(Addr{0x1005}, std::byte{0}));
  EXPECT_FALSE(table.add_window({0x1004, PatchKind::watch_store, bytes({5, 6}), bytes({7, 8})}));
  EXPECT_FALSE(table.add_window({0x0fff, PatchKind::watch_store, bytes({5, 6}), bytes({7, 8})}));
  EXPECT_TRUE(table.add_window({0x0ffe, PatchKind::watch_store, bytes({5, 6}), bytes({7, 8})}));
  ASSERT_TRUE(table.add_breakpoint(Addr{0x2001}, std::byte{0}));
  EXPECT_FALSE(table.add_window({0x2000, PatchKind::watch_store, bytes({5, 6}), bytes({7, 8})}));
  EXPECT_EQ(table.windows_between(Addr{0x1001}, Addr{0x2000}).size(), 1u);
  for (const PatchWindow& window : table.windows_between(Addr{0}, Addr{0x10000})) table.remove_window(Addr{window.low});
  for (uint64_t address : {0x1000u, 0x1005u, 0x2001u}) table.remove_breakpoint(Addr{address});
  EXPECT_TRUE(table.empty());
}

// The three kinds of sites: a loop's, a call with what is behind it, what is before a call.
TEST(PatchedBytes, AnInstructionMayBeExecutedInACopy) {
  const auto six = bytes({1, 2, 3, 4, 5, 6}), jump = bytes({0xe9, 0, 0, 0, 0, 0x90});
  PatchedBytes table;
  ASSERT_TRUE(table.add_window({0x1000, PatchKind::call_site, six, jump, 0x9010, 0, true, false}));
  ASSERT_TRUE(table.add_window({0x2000, PatchKind::call_site, six, jump, 0x9110, 2, false, false}));
  ASSERT_TRUE(table.add_window({0x3000, PatchKind::call_site, six, jump, 0x9200, 0, false, true}));
  ASSERT_TRUE(table.add_window({0x4000, PatchKind::watch_store, six, jump}));
  const std::pair<uint64_t, uint64_t> places[] = {
      {0x1000, 0x1000}, {0x1002, 0x9012}, {0x1005, 0x9015}, {0x1006, 0x1006}, {0x2000, 0x2000}, {0x2002, 0x9110},
      {0x2005, 0x9113}, {0x2006, 0x2006}, {0x3000, 0x9200}, {0x3005, 0x9205}, {0x3006, 0x3006}, {0x4002, 0x4002}};
  for (auto [address, executed] : places) {
    EXPECT_EQ(table.executed_at(Addr{address}).value, executed);
    EXPECT_EQ(table.program_address(Addr{executed}).value, address);
    EXPECT_EQ(table.in_copy(Addr{executed}), executed >= 0x9000);
    EXPECT_FALSE(table.ends_copy(Addr{executed}));
  }
  // The first instruction of a loop site stands in the copy, too, behind the count.
  EXPECT_EQ(table.program_address(Addr{0x9010}).value, 0x1000u);
  const std::pair<uint64_t, uint64_t> ends[] = {{0x9016, 0x1006}, {0x9114, 0x2006}, {0x9206, 0x3006}};
  for (auto [executed, address] : ends) {
    EXPECT_TRUE(table.ends_copy(Addr{executed}));
    EXPECT_EQ(table.program_address(Addr{executed}).value, address);
    EXPECT_FALSE(table.in_copy(Addr{executed + 1}));
    EXPECT_EQ(table.also_executed_at(Addr{address}).has_value(), address == 0x3006);
  }
  EXPECT_EQ(table.also_executed_at(Addr{0x3006})->value, 0x9206u);
  EXPECT_TRUE(table.add_breakpoint(table.executed_at(Addr{0x1002}), std::byte{3}));
  EXPECT_EQ(table.under_breakpoint(Addr{0x9012}), std::byte{3});
  table.remove_window(Addr{0x1000});
  EXPECT_EQ(table.executed_at(Addr{0x1002}).value, 0x1002u);
  EXPECT_FALSE(table.in_copy(Addr{0x9012}));
}

TEST(StopPoints, CountHitsAndIgnoreTheFirstOnes) {
  StopPoints points;
  EXPECT_FALSE(points.add({})) << "neither a location nor an expression";
  StopPoint wanted;
  wanted.location = "main";
  wanted.ignore_count = 2;
  auto id = points.add(wanted);
  ASSERT_TRUE(id);
  EXPECT_EQ(points.count_hit(*id), HitVerdict::ignored);
  EXPECT_EQ(points.count_hit(*id), HitVerdict::ignored);
  EXPECT_EQ(points.count_hit(*id), HitVerdict::run_handlers);
  points.find(*id)->enabled = false;
  EXPECT_EQ(points.count_hit(*id), HitVerdict::disabled);
  EXPECT_EQ(points.find(*id)->hit_count, 3u);
  ASSERT_TRUE(points.remove(*id));
  auto next = points.add(wanted);
  EXPECT_GT(next->value, id->value) << "ids are never used again";
  EXPECT_EQ(points.get(*id).error().code, ErrorCode::not_found);
  EXPECT_EQ(points.count_hit(*id), HitVerdict::disabled);
}

struct Memory final : MemoryReader {
  std::map<uint64_t, uint64_t> words;
  Result<void> read(Addr address, std::span<std::byte> out) override {
    auto it = words.find(address.value);
    if (it == words.end()) return fail(ErrorCode::bad_address, "nothing there");
    std::memcpy(out.data(), &it->second, out.size());
    return {};
  }
};

Result<AgentResult> run(std::initializer_list<int> code, Memory memory = {}) {
  user_regs_struct registers{};
  registers.rbp = 0x7000;
  return run_agent(bytes(code), memory, registers);
}

TEST(Agent, StackOperationsGdbRarelyEmits) {
  // const8 1, const8 2, const8 3, rot -> 3 1 2; pick 2 -> 3; sub: 2 - 3
  auto rotated = run({0x22, 1, 0x22, 2, 0x22, 3, 0x33, 0x32, 2, 0x03, 0x27});
  ASSERT_TRUE(rotated);
  EXPECT_EQ(static_cast<int64_t>(rotated->value), -1);
  auto duplicated = run({0x22, 9, 0x28, 0x04, 0x22, 1, 0x29, 0x27});  // dup mul; const8 1 pop
  ASSERT_TRUE(duplicated);
  EXPECT_EQ(duplicated->value, 81u);
  auto divided = run({0x22, 1, 0x22, 63, 0x09, 0x22, 255, 0x16, 8, 0x05, 0x27});  // (1 << 63) / -1
  ASSERT_TRUE(divided);
  EXPECT_EQ(divided->value, 1ull << 63);
  auto traced = run({0x26, 0, 6, 0x22, 16, 0x0c, 0x27});  // reg rbp, const8 16, trace
  ASSERT_TRUE(traced);
  EXPECT_TRUE(traced->empty);
  ASSERT_EQ(traced->traced.size(), 1u);
  EXPECT_EQ(traced->traced[0].address, 0x7000u);
}

TEST(Agent, BadCodeIsAnErrorAndEnds) {
  EXPECT_EQ(run({0x22, 1, 0x22, 0, 0x06, 0x27}).error().message, "division by zero");
  EXPECT_FALSE(run({0x02, 0x27})) << "empty stack";
  EXPECT_FALSE(run({0x25, 1, 2})) << "cut off";
  EXPECT_FALSE(run({0x22, 1})) << "no end";
  EXPECT_FALSE(run({0x21, 0, 0})) << "endless loop";
  EXPECT_FALSE(run({0x22, 1, 0x21, 0, 0})) << "endless stack";
  EXPECT_FALSE(run({0x21, 1, 0})) << "jump out of the code";
  EXPECT_FALSE(run({0xff})) << "unknown opcode";
  EXPECT_EQ(run({0x26, 0, 40, 0x27}).error().code, ErrorCode::unsupported) << "a vector register";
  EXPECT_EQ(run({0x2c, 0, 1, 0x27}).error().code, ErrorCode::bad_input) << "getv on an empty stack";
  auto unread = run({0x22, 64, 0x1a, 0x27});
  EXPECT_EQ(unread.error().code, ErrorCode::bad_address);
  EXPECT_EQ(unread.error().message, "cannot read 8 bytes at 0x40");
}

}  // namespace
}  // namespace friday
