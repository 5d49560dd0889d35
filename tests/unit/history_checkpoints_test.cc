// What a checkpoint of a replayed group keeps and brings back (core/replay/checkpoint.h), on a small program of three
// processes: while the first one counts between the others, one has ended and one has not begun.
#include "core/replay/checkpoint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>

#include "tests/unit/history_support.h"

namespace friday {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr BreakpointOwner kOwner{BreakpointOwner::Kind::stop_point, 1};
constexpr StopPointId kWatch{1};

// An event of the first process when the second has ended and the third has not begun.
uint64_t between(Replay& replay) { return replay.forked_at(kEarly) + 10; }

// An event of the third process while the first one waits for it. Until eight events later nobody else does anything.
uint64_t while_main_waits(Replay& replay) {
  const Turn alone = replay.longest_turn(kLate);
  if (alone.count < 12) throw std::runtime_error("the third process was hardly ever alone");
  return alone.first + 3;
}

std::set<pid_t> without(const std::set<pid_t>& all, const std::set<pid_t>& some) {
  std::set<pid_t> rest;
  std::ranges::set_difference(all, some, std::inserter(rest, rest.end()));
  return rest;
}

uint64_t number_in(const std::vector<std::byte>& bytes) {
  uint64_t number = 0;
  memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return number;
}

// ---- What it keeps

TEST(Checkpoint, KeepsWhoLivesWhoHasEndedAndWhoHasNotBegun) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  ASSERT_EQ(replay.state(kEarly), NodeState::ended);
  ASSERT_EQ(replay.state(kLate), NodeState::waiting);
  const auto kept = replay.keep();
  EXPECT_EQ(kept->events(), replay->events_done());
  EXPECT_EQ(kept->events_of(kMain), between(replay));
  EXPECT_EQ(kept->events_of(kEarly), replay->mark(kEarly).event.value);
  EXPECT_EQ(kept->events_of(kLate), 0u);
  EXPECT_EQ(kept->copied(), 1u);
  EXPECT_EQ(kept->twins().size(), 1u) << "of the one that lives";
  const States then = replay.states();
  replay.run_to_end();
  const States end = replay.states();
  ASSERT_EQ(replay.state(kLate), NodeState::ended);
  must(replay->restore(*kept));
  EXPECT_EQ(replay.states(), then);
  EXPECT_EQ(replay.node(kEarly).outcome(), (NodeOutcome{NodeOutcome::How::exited, 3, ""}));
  const auto late = replay->readable(kLate);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::node_not_started);
  replay.run_to_end();
  EXPECT_EQ(replay.states(), end);
}

TEST(Checkpoint, IsOfTheStartOnlyUntilTheGroupRuns) {
  Replay replay(generations());
  const auto start = replay.keep();
  EXPECT_TRUE(start->is_start());
  EXPECT_EQ(start->events(), 0u);
  replay.run_to(kMain, 3);
  EXPECT_FALSE(replay.keep()->is_start());
  must(replay->restore(*start));
  EXPECT_TRUE(replay->is_at_start());
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

TEST(Checkpoint, TwoReturnsGiveEqualStates) {
  Replay replay(generations());
  const uint64_t event = while_main_waits(replay);
  replay.run_to(kLate, event);
  const auto kept = replay.keep();
  const States then = replay.states();
  for (int i = 0; i < 3; i++) {
    replay.run_to(kLate, event + 4);
    replay.set_value(kLate, places().ticks, 1'000'000);
    must(replay->restore(*kept));
    EXPECT_EQ(replay.states(), then) << "return " << i;
  }
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

TEST(Checkpoint, EachPlaceIsReachedFromEachOther) {
  Replay replay(generations());
  std::vector<std::pair<std::unique_ptr<GroupCheckpoint>, States>> all;
  const auto add = [&] {
    auto kept = replay.keep();
    all.emplace_back(std::move(kept), replay.states());
  };
  add();
  replay.run_to(kEarly, replay.longest_turn(kEarly).first + 2);
  add();
  replay.run_to(kMain, between(replay));
  add();
  replay.run_to(kLate, while_main_waits(replay));
  add();
  replay.run_to_end();
  for (const size_t which : {2, 0, 3, 1, 1, 3, 0, 2}) {
    must(replay->restore(*all[which].first));
    EXPECT_EQ(replay.states(), all[which].second) << "checkpoint " << which;
  }
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

// The shim of a node reads there how far the others are, and the core whose turn it is.
TEST(Checkpoint, KeepsThePlaceInTheSchedule) {
  Replay replay(generations());
  replay.run_to(kLate, while_main_waits(replay));
  must(replay.node(kLate).breakpoints().insert(places().tick, kOwner));
  const Stop stop = replay.run();
  ASSERT_EQ(stop.kind, Stop::Kind::breakpoint);
  ASSERT_EQ(stop.node, kLate);
  const auto kept = replay.keep();
  const auto done = replay->waits_at(kMain);
  ASSERT_TRUE(done);
  ASSERT_FALSE(replay->waits_at(kLate)) << "it has its turn";
  must(replay.node(kLate).breakpoints().clear());
  replay.run_to_end();
  must(replay->restore(*kept));
  EXPECT_EQ(replay->waits_at(kMain), done);
  EXPECT_FALSE(replay->waits_at(kLate));
  must(replay.node(kLate).breakpoints().clear());
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

TEST(Checkpoint, KeepsTheContentsOfSharedMemory) {
  Replay replay(generations());
  const uint64_t event = while_main_waits(replay);
  replay.run_to(kLate, event);
  const auto kept = replay.keep();
  EXPECT_GE(kept->shared_bytes(), sizeof(uint64_t));
  const uint64_t then = replay.value(kMain, places().shared);
  replay.run_to_end();
  ASSERT_GT(replay.value(kMain, places().shared), then);
  must(replay->restore(*kept));
  EXPECT_EQ(replay.value(kMain, places().shared), then);
  replay.run_to(kLate, event + 1);
  EXPECT_GT(replay.value(kMain, places().shared), then) << "the processes no longer share it";
  EXPECT_EQ(replay.value(kMain, places().shared), replay.value(kLate, places().shared));
}

TEST(Checkpoint, KeepsWhichEndsWereReported) {
  Replay replay(generations());
  replay->report_node_ends = true;
  const Stop stop = replay.run();
  ASSERT_EQ(stop.kind, Stop::Kind::exit);
  ASSERT_EQ(stop.node, kEarly);
  const auto kept = replay.keep();
  const std::vector<NodeId> rest{kLate, kMain};
  ASSERT_EQ(replay.run_to_end(), rest);
  must(replay->restore(*kept));
  EXPECT_EQ(replay.run_to_end(), rest) << "the first process waits for the end that was reported";
}

// One store to shared memory stops both processes that watch it, one after the other.
TEST(Checkpoint, KeepsTheStopThatHasNotBeenReportedYet) {
  Replay replay(generations());
  replay.run_to(kLate, while_main_waits(replay));
  replay.settle();
  ASSERT_TRUE(replay->is_between_events());
  for (NodeId id : {kMain, kLate})
    must(replay.node(id).watches().arm({.id = kWatch, .low = places().shared, .size = sizeof(uint64_t)}));
  const Stop first = replay.run();
  ASSERT_EQ(first.kind, Stop::Kind::watch);
  ASSERT_EQ(first.node, kLate);
  const auto kept = replay.keep();
  const auto expect_rest = [&](const char* when) {
    const Stop second = replay.run(), next = replay.run();
    ASSERT_EQ(second.kind, Stop::Kind::watch) << when;
    EXPECT_EQ(second.node, kMain) << when;
    ASSERT_TRUE(second.writer) << when;
    EXPECT_EQ(second.writer->node, kLate) << when;
    EXPECT_EQ(second.hits.at(0).new_bytes, first.hits.at(0).new_bytes) << when;
    ASSERT_EQ(next.kind, Stop::Kind::watch) << when;
    EXPECT_EQ(next.node, kLate) << when;
    EXPECT_EQ(number_in(next.hits.at(0).new_bytes), number_in(first.hits.at(0).new_bytes) + 1) << when;
  };
  expect_rest("straight");
  must(replay->restore(*kept));
  expect_rest("from the checkpoint");
}

// ---- Stop points, and what has been altered

TEST(Checkpoint, ABreakpointThatWasHitIsNotHitAgain) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  must(replay.node(kMain).breakpoints().insert(places().tick, kOwner));
  for (int i = 0; i < 5; i++) ASSERT_EQ(replay.run().kind, Stop::Kind::breakpoint);
  const auto kept = replay.keep();
  const uint64_t ticks = replay.value(kMain, places().ticks);
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(replay.run().kind, Stop::Kind::breakpoint);
    EXPECT_EQ(replay.value(kMain, places().ticks), ticks + 1) << "return " << i;
    must(replay->restore(*kept));
    EXPECT_EQ(replay.value(kMain, places().ticks), ticks) << "return " << i;
  }
  // Three in each round, and no number that nobody has counted: the process is another one since the last event.
  std::vector<std::optional<uint64_t>> passages;
  for (int i = 0; i < 8; i++) {
    const Stop stop = replay.run();
    ASSERT_EQ(stop.kind, Stop::Kind::breakpoint);
    passages.push_back(replay.node(kMain).breakpoints().passage(stop.pc));
  }
  const auto first = std::ranges::find(passages, std::optional<uint64_t>(1));
  ASSERT_LE(first - passages.begin(), 2);
  for (auto at = first; at != passages.end(); ++at)
    EXPECT_EQ(*at, std::optional<uint64_t>((at - first) % 3 + 1)) << "stop " << at - passages.begin();
}

TEST(Checkpoint, BreakpointsAreThoseOfThen) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  const Addr tick = places().tick;
  const auto plain = replay.keep();
  must(replay.node(kMain).breakpoints().insert(tick, kOwner));
  const auto with_breakpoint = replay.keep();
  must(replay.node(kMain).breakpoints().clear());
  must(replay->restore(*with_breakpoint));
  EXPECT_TRUE(replay.node(kMain).breakpoints().contains(tick));
  EXPECT_EQ(replay.run().kind, Stop::Kind::breakpoint);
  must(replay->restore(*plain));
  EXPECT_FALSE(replay.node(kMain).breakpoints().contains(tick));
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

TEST(Checkpoint, AWatchKnowsTheValueOfThen) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  must(replay.node(kMain).watches().arm({.id = kWatch, .low = places().ticks, .size = sizeof(uint64_t)}));
  for (int i = 0; i < 5; i++) ASSERT_EQ(replay.run().kind, Stop::Kind::watch);
  const auto kept = replay.keep();
  const Stop straight = replay.run();
  ASSERT_EQ(straight.kind, Stop::Kind::watch);
  for (int i = 0; i < 3; i++) ASSERT_EQ(replay.run().kind, Stop::Kind::watch);
  must(replay->restore(*kept));
  const Stop again = replay.run();
  ASSERT_EQ(again.kind, Stop::Kind::watch);
  ASSERT_EQ(again.hits.size(), 1u);
  EXPECT_EQ(again.hits[0].old_bytes, straight.hits.at(0).old_bytes);
  EXPECT_EQ(again.hits[0].new_bytes, straight.hits.at(0).new_bytes);
  ASSERT_GT(straight.hits.at(0).nth, 0u);
  EXPECT_THAT(again.hits[0].nth, AnyOf(0u, straight.hits.at(0).nth)) << "0: it is not known";
}

TEST(Checkpoint, ANodeIsAlteredWhereItWas) {
  Replay replay(generations());
  replay.run_to(kLate, while_main_waits(replay));
  const auto before = replay.keep();
  const States then = replay.states();
  // It waits for its turn all the time, so its process would stay if it were not for this.
  replay.set_value(kMain, places().ticks, 1'000'000);
  replay.node(kMain).note_altered();
  const auto altered = replay.keep();
  EXPECT_THAT(altered->twins(), Not(Contains(before->twins().at(0))));
  must(replay->restore(*before));
  EXPECT_FALSE(replay.node(kMain).is_altered());
  EXPECT_EQ(replay.states(), then);
  must(replay->restore(*altered));
  EXPECT_TRUE(replay.node(kMain).is_altered());
  EXPECT_EQ(replay.value(kMain, places().ticks), 1'000'000u);
  must(replay->restore(*before));
  EXPECT_FALSE(replay.node(kMain).is_altered());
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

// ---- Threads

TEST(Checkpoint, ThreadsComeBackAsTheyWere) {
  const Recorded& workers = recorded("workers");
  Replay replay(workers);
  replay.run_to(kMain, replay->schedule().event_count(kMain) / 2);
  ASSERT_GT(replay.node(kMain).threads().size(), 2u);
  const auto kept = replay.keep();
  const States then = replay.states();
  replay.run_to_end();
  const States end = replay.states();
  EXPECT_EQ(end, states_at_end(workers));
  for (int i = 0; i < 2; i++) {
    must(replay->restore(*kept));
    EXPECT_EQ(replay.states(), then) << "return " << i;
  }
  replay.run_to_end();
  EXPECT_EQ(replay.states(), end);
}

// What only the kernel has of a thread.
TEST(Checkpoint, EachThreadHasItsVectorRegistersAndItsSignalMask) {
  constexpr size_t kXmm = 160 + 15 * 16, kInUse = 512;  // in the form of PTRACE_GETREGSET: XMM15, and XSTATE_BV
  Replay replay(recorded("workers"));
  replay.run_to(kMain, replay->schedule().event_count(kMain) / 2);
  replay.settle();
  ASSERT_TRUE(replay->is_between_events());
  const auto mask_of = [&](ThreadId id) {
    uint64_t mask = 0;
    EXPECT_EQ(ptrace(PTRACE_GETSIGMASK, replay.node(kMain).thread_of(id)->tid, sizeof mask, &mask), 0);
    return mask;
  };
  const std::vector<ThreadInfo> threads = replay.node(kMain).threads();
  ASSERT_GT(threads.size(), 2u);
  const uint64_t first_mask = mask_of(threads[0].id);
  for (const ThreadInfo& thread : threads) {
    auto state = must(replay.node(kMain).extended_state(thread.id));
    ASSERT_GT(state.size(), kInUse);
    state[kXmm] = static_cast<std::byte>(0x40 + thread.id.value);
    state[kInUse] |= std::byte{2};  // the registers are not as they are at first
    must(replay.node(kMain).set_extended_state(thread.id, state));
    const uint64_t mask = first_mask | uint64_t{1} << (40 + thread.id.value);
    ASSERT_EQ(ptrace(PTRACE_SETSIGMASK, replay.node(kMain).thread_of(thread.id)->tid, sizeof mask, &mask), 0);
  }
  const auto kept = replay.keep();
  const pid_t pid = replay.pid(kMain);
  replay.node(kMain).note_altered();  // so its process cannot stay
  must(replay->restore(*kept));
  ASSERT_NE(replay.pid(kMain), pid);
  for (const ThreadInfo& thread : threads) {
    const auto state = must(replay.node(kMain).extended_state(thread.id));
    EXPECT_EQ(state.at(kXmm), static_cast<std::byte>(0x40 + thread.id.value)) << "thread " << thread.id.value;
    EXPECT_EQ(mask_of(thread.id), first_mask | uint64_t{1} << (40 + thread.id.value)) << "thread " << thread.id.value;
  }
}

// ---- What it costs, and how long it lasts

TEST(Checkpoint, ANodeThatHasNotMovedIsNotCopied) {
  Replay replay(generations());
  const uint64_t event = while_main_waits(replay);
  replay.run_to(kLate, event);
  const auto first = replay.keep();
  EXPECT_EQ(first->copied(), 2u);
  ASSERT_EQ(first->twins().size(), 2u);
  const States then = replay.states();
  replay.run_to(kLate, event + 5);
  const auto second = replay.keep();
  EXPECT_EQ(second->copied(), 1u);
  ASSERT_EQ(second->twins().size(), 2u);
  EXPECT_EQ(second->twins()[0], first->twins()[0]);
  EXPECT_NE(second->twins()[1], first->twins()[1]);

  const pid_t main = replay.pid(kMain), late = replay.pid(kLate);
  replay.started.clear(), replay.stands.clear();
  must(replay->restore(*first));
  EXPECT_EQ(replay.pid(kMain), main);
  EXPECT_NE(replay.pid(kLate), late);
  EXPECT_THAT(replay.stands, Contains(kMain));
  EXPECT_EQ(replay.started, std::vector{kLate});
  EXPECT_EQ(replay.states(), then);
}

TEST(Checkpoint, ItsProcessesEndWithIt) {
  Replay replay(generations());
  replay.run_to(kLate, while_main_waits(replay));
  const auto before = replay.processes();
  auto kept = replay.keep();
  auto again = replay.keep();
  const auto twins = kept->twins();
  EXPECT_EQ(without(replay.processes(), before).size(), again->copied() + twins.size());
  again.reset();
  EXPECT_EQ(without(replay.processes(), before), std::set<pid_t>(twins.begin(), twins.end()));
  kept.reset();
  EXPECT_EQ(replay.processes(), before);
}

TEST(Checkpoint, RebuiltProcessesAreNoMoreItsOwn) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  const auto kept = replay.keep();
  must(replay->restart());
  const auto restored = replay->restore(*kept);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::unsupported);
  EXPECT_THAT(restored.error().message, HasSubstr("rebuilt"));
  EXPECT_TRUE(replay->is_at_start());
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

// ---- What goes wrong

TEST(Checkpoint, ADivergenceIsTakenBack) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  const auto kept = replay.keep();
  const States then = replay.states();
  replay.set_value(kMain, places().ticks, 1'000'000);  // of which the next round makes the argument of its call
  ASSERT_EQ(replay.run().kind, Stop::Kind::divergence);
  ASSERT_TRUE(replay->divergence());
  const auto refused = replay->checkpoint();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  must(replay->restore(*kept));
  EXPECT_FALSE(replay->divergence());
  EXPECT_EQ(replay.states(), then);
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

TEST(Checkpoint, AProcessThatWasKilledComesBack) {
  Replay replay(generations());
  replay.run_to(kLate, while_main_waits(replay));
  const auto kept = replay.keep();
  const States then = replay.states();
  ASSERT_EQ(kill(replay.pid(kLate), SIGKILL), 0);
  ASSERT_EQ(replay.run().kind, Stop::Kind::failure);
  const auto refused = replay->checkpoint();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  must(replay->restore(*kept));
  EXPECT_FALSE(replay->failure());
  EXPECT_EQ(replay.states(), then);
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

TEST(Checkpoint, IsRefusedWhereAThreadIsMoreThanItsRegistersAndItsMemory) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  ReplayNode& node = replay.node(kMain);
  const ThreadId id = node.current();
  ReplayNode::Thread& thread = *node.thread_of(id);
  const auto before = replay.processes();
  const auto expect_refusal = [&](const char* why) {
    const auto refused = replay->checkpoint();
    ASSERT_FALSE(refused) << why;
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr(why));
    EXPECT_EQ(replay.processes(), before) << why;
  };
  thread.deliver = SIGUSR1;
  expect_refusal("a signal is about to be delivered");
  thread.deliver = 0;
  thread.held = W_STOPCODE(SIGSEGV);
  expect_refusal("what a thread has done is not handled yet");
  thread.held.reset();
  const auto from = must(node.standing(id));
  user_regs_struct called = from.view;
  called.rip = places().tick.value;
  called.rsp = (called.rsp - 1024) & ~uint64_t{15};
  must(node.begin_call(id, from, called));
  expect_refusal("a function that the debugger has called is not done");
  must(node.end_call(id));
  EXPECT_TRUE(replay->checkpoint()) << "a moment later it can be made";
  replay.run_to_end();
}

// The first process has been copied when the second one cannot be.
TEST(Checkpoint, AProcessThatIsTooLargeToBeCopiedIsSaid) {
  if (!refuses_large_copies()) GTEST_SKIP() << "machine: vm.overcommit_memory is not 0, so any process is copied";
  Replay replay(generations());
  const uint64_t event = while_main_waits(replay);
  replay.run_to(kLate, event);
  replay.settle();
  const auto before = replay.processes();
  const auto mapping = enlarge(replay.node(kLate));
  const auto refused = replay->checkpoint();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("the kernel makes no copy of a replayed process: ENOMEM"));
  EXPECT_EQ(replay.processes(), before);
  replay.run_to(kLate, event + 2);
  shrink(replay.node(kLate), mapping);
  const auto kept = replay.keep();
  const States then = replay.states();
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
  must(replay->restore(*kept));
  EXPECT_EQ(replay.states(), then);
}

// Lets this process open no more files while it exists.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    const rlimit few{static_cast<rlim_t>(next), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(Checkpoint, ACopyThatCannotBeReachedIsEnded) {
  Replay replay(generations());
  replay.run_to(kMain, between(replay));
  const auto before = replay.processes();
  const auto refused = [&] {
    const NoDescriptors none;
    return replay->checkpoint();
  }();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("/mem")) << "the copy was made, and its memory not opened";
  EXPECT_EQ(replay.processes(), before);
  const auto kept = replay.keep();
  const States then = replay.states();
  replay.run_to(kMain, between(replay) + 2);
  const States now = replay.states();
  const auto returned = [&] {
    const NoDescriptors none;
    return replay->restore(*kept);
  }();
  ASSERT_FALSE(returned);
  EXPECT_EQ(replay.states(), now) << "the group stands where it stood";
  EXPECT_EQ(replay.processes().size(), before.size() + kept->twins().size());
  must(replay->restore(*kept));
  EXPECT_EQ(replay.states(), then);
}

// Something has ended a twin, as the kernel does when memory is short. The other node has been copied by then.
TEST(Checkpoint, AReturnThatFailsLeavesTheGroupWhereItStood) {
  Replay replay(generations());
  const uint64_t event = while_main_waits(replay);
  replay.run_to(kLate, event);
  const auto kept = replay.keep();
  const pid_t twin = kept->twins().at(1);
  replay.node(kMain).note_altered();  // else its process would stay
  replay.run_to(kLate, event + 4);
  replay.settle();
  ASSERT_TRUE(replay->is_between_events());
  const States now = replay.states();
  const std::map<NodeId, pid_t> pids{{kMain, replay.pid(kMain)}, {kLate, replay.pid(kLate)}};
  auto processes = replay.processes();
  processes.erase(twin);
  ASSERT_EQ(kill(twin, SIGKILL), 0);
  for (int i = 0; i < 2; i++) {
    const auto returned = replay->restore(*kept);
    ASSERT_FALSE(returned);
    EXPECT_EQ(returned.error().code, ErrorCode::component_died) << returned.error().message;
    EXPECT_EQ(replay.states(), now);
    for (const auto& [id, pid] : pids) EXPECT_EQ(replay.pid(id), pid);
    EXPECT_EQ(without(replay.processes(), {twin}), processes);
  }
  replay.run_to_end();
  EXPECT_EQ(replay.states(), states_at_end(generations()));
}

}  // namespace
}  // namespace friday
