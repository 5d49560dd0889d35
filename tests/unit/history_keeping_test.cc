// When checkpoints are made, what is known of each, and which stay (core/history/history.h). A test stands in for the
// run that pauses for a checkpoint: it goes to a place, and calls what the session calls in a pause.
#include "core/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "core/history/thinning.h"
#include "tests/unit/history_support.h"

namespace friday {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Clock = std::chrono::steady_clock;

// A replay with its history. Nothing is made in runs.
class Past {
 public:
  explicit Past(uint64_t budget = 0, SyncMode sync = SyncMode::clock)
      : replay(generations(), sync), history(*replay, budget) {}

  // go() brings the first process so many events behind its first fork, 9 to 25: the second process has ended then.
  // go_behind_block() brings it so many events before its second fork, 25 to 1: it has changed many pages on the way.
  void go(uint64_t events) { replay.run_to(kMain, replay.forked_at(kEarly) + events); }
  void go_behind_block(uint64_t events) { replay.run_to(kMain, replay.forked_at(kLate) - events); }
  void keep(uint64_t events) {
    go(events);
    must(history.keep_now());
  }
  void return_to(const GroupCheckpoint& checkpoint) {
    must(replay->restore(checkpoint));
    history.note_return();
    replay->pause_at.reset();
  }
  void turn_on() {
    history.set_on(true);
    replay->pause_at.reset();  // until pause()
  }
  // What a run does when it is time for a checkpoint. Returns how many there are then.
  size_t pause() {
    replay->on_pause();
    replay->pause_at.reset();
    return history.entries().size();
  }

  std::vector<uint64_t> events() const {
    std::vector<uint64_t> all;
    for (const History::Entry& entry : history.entries()) all.push_back(entry.checkpoint->events());
    return all;
  }
  std::vector<uint64_t> numbers() const {
    std::vector<uint64_t> all;
    for (const History::Entry& entry : history.entries()) all.push_back(entry.number);
    return all;
  }
  // How often the user was told that there are no more.
  size_t told() {
    return static_cast<size_t>(std::ranges::count_if(replay->take_notices(), [](const std::string& text) {
      return text.starts_with("no more checkpoints are made");
    }));
  }

  Replay replay;
  History history;
};

// ---- Which is found

TEST(History, TheLastOneBeforeAPlaceIsFound) {
  Past past;
  past.history.set_on(true);
  past.history.begin_run();
  past.history.set_on(false);
  for (const uint64_t place : {10, 14, 18}) past.keep(place);
  const auto all = past.events();
  ASSERT_EQ(all.size(), 4u);
  const auto& entries = past.history.entries();
  EXPECT_EQ(past.history.before(all[2] + 1), entries[2].checkpoint);
  EXPECT_EQ(past.history.before(all[2]), entries[1].checkpoint) << "one at the place itself is not before it";
  EXPECT_EQ(past.history.before(all[3] + 1000), entries[3].checkpoint);
  EXPECT_EQ(past.history.before(1), entries[0].checkpoint);
  EXPECT_EQ(past.history.before(0), entries[0].checkpoint) << "at the start that of the start is taken";
  EXPECT_EQ(past.history.start(), entries[0].checkpoint);
}

TEST(History, WithoutOneOfTheStartThereMayBeNone) {
  Past past;
  EXPECT_FALSE(past.history.before(1000));
  past.keep(10);
  const uint64_t here = past.events().at(0);
  EXPECT_FALSE(past.history.start());
  EXPECT_FALSE(past.history.before(here));
  EXPECT_EQ(past.history.before(here + 1), past.history.entries().at(0).checkpoint);
}

TEST(History, TheyStandInTheOrderOfTheRecordingAndKeepTheirNumbers) {
  Past past;
  for (const uint64_t place : {10, 18}) past.keep(place);
  EXPECT_EQ(past.history.take_new().size(), 2u);
  past.return_to(*past.history.entries().at(0).checkpoint);
  past.keep(14);
  EXPECT_TRUE(std::ranges::is_sorted(past.events()));
  EXPECT_THAT(past.numbers(), ElementsAre(1, 3, 2));
  EXPECT_EQ(past.history.numbered(3), past.history.entries().at(1).checkpoint);
  EXPECT_FALSE(past.history.numbered(4));
  const auto told = past.history.take_new();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].number, 3u);
  EXPECT_THAT(past.history.take_new(), IsEmpty());
}

TEST(History, WhatLiesBehindAPlaceIsDropped) {
  Past past;
  for (const uint64_t place : {10, 14, 18}) past.keep(place);
  past.history.drop_behind(past.events().at(1));
  EXPECT_THAT(past.numbers(), ElementsAre(1, 2));
  EXPECT_FALSE(past.history.numbered(3));
  past.history.clear();
  EXPECT_THAT(past.history.entries(), IsEmpty());
}

// ---- When one is made

TEST(History, TheFirstRunBeginsWithTheStart) {
  Past past;
  past.history.begin_run();
  EXPECT_THAT(past.history.entries(), IsEmpty()) << "none are wanted";
  past.history.may_keep = [] { return false; };
  past.history.set_on(true);
  past.history.begin_run();
  EXPECT_THAT(past.history.entries(), IsEmpty()) << "the group is altered";
  past.history.may_keep = {};
  past.history.begin_run();
  past.history.begin_run();
  ASSERT_EQ(past.history.entries().size(), 1u);
  EXPECT_TRUE(past.history.entries()[0].checkpoint->is_start());
}

TEST(History, AGroupThatHasMovedHasNoStartToKeep) {
  Past past;
  past.go(10);
  past.history.set_on(true);
  past.history.begin_run();
  EXPECT_THAT(past.history.entries(), IsEmpty());
}

TEST(History, OnlyTheOrderClockHasPlacesToComeBackTo) {
  Past past(0, SyncMode::causal);
  past.history.set_on(true);
  past.history.begin_run();
  EXPECT_THAT(past.history.entries(), IsEmpty());
  const auto made = past.history.keep_now();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  EXPECT_THAT(made.error().message, HasSubstr("order clock"));
}

TEST(History, AnAlteredGroupIsNoPlaceToComeBackTo) {
  Past past;
  past.go(10);
  past.history.may_keep = [] { return false; };
  const auto made = past.history.keep_now();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  EXPECT_THAT(made.error().message, HasSubstr("altered"));
  past.turn_on();
  EXPECT_EQ(past.pause(), 0u);
  EXPECT_EQ(past.history.refusal(), "") << "it need not stay altered";
}

TEST(History, APauseMakesNoneWhereTheGroupHasBeenBefore) {
  Past past;
  past.turn_on();
  past.history.begin_run();
  past.replay->pause_at.reset();
  past.go(10);
  EXPECT_EQ(past.pause(), 2u);
  past.go(14);
  EXPECT_EQ(past.pause(), 3u);
  past.return_to(*past.history.start());
  past.go(12);
  EXPECT_EQ(past.pause(), 3u) << "there is one on the way here";
  past.go(18);
  EXPECT_EQ(past.pause(), 3u) << "there is one between the last pause and this place";
  past.go(20);
  EXPECT_EQ(past.pause(), 4u) << "this is new";
  past.history.set_on(false);
  past.go(24);
  EXPECT_EQ(past.pause(), 4u);
}

// A run of twenty times its cost, and of 20 ms at least, lies behind each.
TEST(History, TheNextOneFollowsFromTheCostOfTheLast) {
  Past past;
  past.turn_on();
  past.go(10);
  auto before = Clock::now();
  past.replay->on_pause();
  auto after = Clock::now();
  ASSERT_EQ(past.history.entries().size(), 1u);
  ASSERT_TRUE(past.replay->pause_at);
  const auto most = std::max<Clock::duration>(20ms, 20 * (after - before));
  EXPECT_GE(*past.replay->pause_at, before + 20ms);
  EXPECT_LE(*past.replay->pause_at, after + most);
  before = Clock::now();
  past.history.note_copy(50ms);
  after = Clock::now();
  ASSERT_TRUE(past.replay->pause_at);
  EXPECT_GE(*past.replay->pause_at, before + 1s + 20ms) << "what else was copied for it counts besides";
  EXPECT_LE(*past.replay->pause_at, after + 1s + most);
}

TEST(History, WhereNoneCanBeMadeItIsTriedAgainSoon) {
  Past past;
  past.keep(10);
  past.turn_on();
  past.go(14);
  ReplayNode& node = past.replay.node(kMain);
  ReplayNode::Thread& thread = *node.thread_of(node.current());
  thread.deliver = SIGUSR1;
  const auto before = Clock::now();
  past.replay->on_pause();
  const auto after = Clock::now();
  EXPECT_EQ(past.history.entries().size(), 1u);
  EXPECT_EQ(past.history.refusal(), "");
  ASSERT_TRUE(past.replay->pause_at);
  EXPECT_GT(*past.replay->pause_at, before);
  EXPECT_LE(*past.replay->pause_at, after + 5ms);
  thread.deliver = 0;
  EXPECT_EQ(past.pause(), 2u);
  EXPECT_EQ(past.told(), 0u);
}

TEST(History, ItIsSaidOnceThatNoneCanBeMade) {
  if (!refuses_large_copies()) GTEST_SKIP() << "machine: vm.overcommit_memory is not 0, so any process is copied";
  Past past;
  past.go(10);
  past.turn_on();
  const auto processes = past.replay.processes();
  const auto mapping = enlarge(past.replay.node(kMain));
  EXPECT_EQ(past.pause(), 0u);
  EXPECT_EQ(past.pause(), 0u);
  EXPECT_THAT(past.history.refusal(), HasSubstr("the kernel makes no copy of a replayed process: ENOMEM"));
  EXPECT_EQ(past.told(), 1u);
  EXPECT_EQ(past.replay.processes(), processes);
  const auto made = past.history.keep_now();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  past.go(12);
  shrink(past.replay.node(kMain), mapping);
  EXPECT_EQ(past.pause(), 0u) << "it was given up";
  past.turn_on();
  EXPECT_EQ(past.history.refusal(), "");
  EXPECT_EQ(past.pause(), 1u);
  past.replay.run_to_end();
  EXPECT_EQ(past.replay.states(), states_at_end(generations()));
}

// ---- What one costs, and which stay

TEST(History, WhatOneHoldsIsWhatTheNodesHaveChangedSince) {
  constexpr uint64_t kBlock = 1 << 20;  // which the program changes as a whole
  Past past;
  past.keep(20);
  const uint64_t least = past.history.bytes();
  EXPECT_GE(least, uint64_t{16} << 10) << "a process costs something by itself";
  EXPECT_LT(least, kBlock / 4);
  past.go_behind_block(20);
  must(past.history.keep_now());
  past.go_behind_block(5);
  must(past.history.keep_now());
  const auto& entries = past.history.entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_GE(entries[0].bytes, kBlock);
  EXPECT_LT(entries[0].bytes, 2 * kBlock);
  EXPECT_LT(entries[1].bytes, kBlock / 2) << "the block did not change behind it";
  EXPECT_EQ(past.history.bytes(), entries[0].bytes + entries[1].bytes + entries[2].bytes);
}

// After a return it is not known what has changed since the last one was made.
TEST(History, WhatHappensBehindAReturnIsNotCountedForTheLastOne) {
  Past past;
  past.keep(18);
  past.keep(20);
  past.return_to(*past.history.entries().at(0).checkpoint);
  past.go_behind_block(20);
  must(past.history.keep_now());
  for (const History::Entry& entry : past.history.entries()) EXPECT_LT(entry.bytes, uint64_t{1} << 19);
}

TEST(History, ABudgetThatIsTooSmallLeavesTheFirstAndTheLast) {
  Past past;
  past.go(9);
  const auto before = past.replay.processes();
  for (const uint64_t place : {10, 13, 16, 19, 22}) past.keep(place);
  const auto all = past.events();
  const auto twins = past.history.entries()[2].checkpoint->twins();
  EXPECT_EQ(past.replay.processes().size(), before.size() + 5);
  past.history.set_budget(1);
  EXPECT_THAT(past.events(), ElementsAre(all.front(), all.back()));
  EXPECT_THAT(past.numbers(), ElementsAre(1, 5));
  EXPECT_FALSE(past.history.numbered(3));
  const auto left = past.replay.processes();
  EXPECT_FALSE(left.contains(twins.at(0)));
  EXPECT_EQ(left.size(), before.size() + 2);
  EXPECT_EQ(past.history.before(all[3]), past.history.entries()[0].checkpoint) << "each place has one before it";
  past.keep(25);
  EXPECT_THAT(past.numbers(), ElementsAre(1, 6)) << "also when one more is made";
  must(past.replay->restore(*past.history.entries()[0].checkpoint));
  EXPECT_EQ(past.replay->events_done(), all.front());
}

TEST(History, OnlyAsManyGoAsMust) {
  Past past;
  for (const uint64_t place : {10, 12, 14, 16, 18, 20, 22}) past.keep(place);
  const uint64_t bytes = past.history.bytes(), second = past.history.entries()[1].bytes;
  past.history.set_budget(bytes);
  ASSERT_EQ(past.history.entries().size(), 7u);
  past.history.set_budget(bytes - 1);
  EXPECT_THAT(past.numbers(), ElementsAre(1, 3, 4, 5, 6, 7)) << "of equally spaced ones the farthest goes";
  EXPECT_EQ(past.history.bytes(), bytes - second + second / 2) << "half of its pages are now held by the one before";
  EXPECT_EQ(past.history.budget(), bytes - 1);
}

TEST(History, WhatIsFarFromWhereTheGroupStandsGoesFirst) {
  Past past;
  for (const uint64_t place : {10, 12, 14, 16, 18, 20, 22}) past.keep(place);
  past.return_to(*past.history.entries()[0].checkpoint);
  past.history.set_budget(past.history.bytes() - 1);
  EXPECT_THAT(past.numbers(), ElementsAre(1, 2, 3, 4, 5, 7));
}

TEST(History, TheyGoInTheOrderInWhichTheyAreMissed) {
  Past past;
  for (const uint64_t place : {10, 11, 13, 14, 17, 18, 19, 22, 23, 24}) past.keep(place);
  auto expected = past.events();
  const uint64_t here = past.replay->events_done(), budget = past.history.bytes() / 3 * 2;
  past.history.set_budget(budget);
  const auto left = past.events();
  EXPECT_TRUE(past.history.bytes() <= budget || left.size() == 2);
  ASSERT_LT(left.size(), expected.size());
  while (expected.size() > left.size())
    expected.erase(expected.begin() + static_cast<long>(least_missed(expected, here)));
  EXPECT_EQ(left, expected);
}

}  // namespace
}  // namespace friday
