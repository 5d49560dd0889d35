// How stops of replayed threads, deaths, and ends of nodes are judged. Each test is a table of what ptrace, the shim
// and the recording report, with values that no honest program or recording yields among them.
#include "core/replay/judging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <vector>

#include "core/replay/verdict.h"
#include "core/shim/shim_abi.h"

namespace friday {
namespace {

constexpr int kSeccomp = 1;                     // SYS_SECCOMP, the si_code of a call that the filter refuses
constexpr unsigned kArchitecture = 0xc000003e;  // AUDIT_ARCH_X86_64

siginfo_t info_of(int signal, int code) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = code;
  return info;
}

siginfo_t refused_call() {
  siginfo_t info = info_of(SIGSYS, kSeccomp);
  info.si_arch = kArchitecture;
  return info;
}

// ---- Signals

TEST(ReplaySignals, AFaultIsOneOnlyIfTheKernelRaisedIt) {
  for (int signal : std::initializer_list<int>{SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_EQ(judge_signal(signal, info_of(signal, 1)), SignalStop::fault) << signal;
    EXPECT_EQ(judge_signal(signal, info_of(signal, SI_KERNEL)), SignalStop::fault) << signal;
    for (int code : std::initializer_list<int>{SI_USER, SI_QUEUE, SI_TKILL, INT_MIN})
      EXPECT_EQ(judge_signal(signal, info_of(signal, code)), SignalStop::stray) << signal << " with code " << code;
  }
}

TEST(ReplaySignals, ATrapNeedsNoSiginfo) {
  EXPECT_EQ(judge_signal(SIGTRAP, siginfo_t{}), SignalStop::trap);
  EXPECT_EQ(judge_signal(SIGTRAP, info_of(SIGTRAP, SI_USER)), SignalStop::trap);
}

TEST(ReplaySignals, OfSigsysTheFilterTheDispatchAndSendersAreToldApart) {
  EXPECT_EQ(judge_signal(SIGSYS, refused_call()), SignalStop::refused);
  constexpr int kDispatch = 2;  // SYS_USER_DISPATCH
  EXPECT_EQ(judge_signal(SIGSYS, info_of(SIGSYS, kDispatch)), SignalStop::dispatched);
  EXPECT_EQ(judge_signal(SIGSYS, info_of(SIGSYS, SI_USER)), SignalStop::stray);
  // A child that was cloned with SIGSYS as its exit signal: CLD_EXITED is the same number as SYS_SECCOMP.
  static_assert(CLD_EXITED == kSeccomp);
  EXPECT_NE(judge_signal(SIGSYS, info_of(SIGSYS, CLD_EXITED)), SignalStop::refused);
}

TEST(ReplaySignals, AnyOtherSignalIsStray) {
  for (int signal = 0; signal <= NSIG; signal++) {
    if (signal == SIGTRAP || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
        signal == SIGSYS)
      continue;
    for (int code : std::initializer_list<int>{SI_USER, SI_KERNEL, 1})
      EXPECT_EQ(judge_signal(signal, info_of(signal, code)), SignalStop::stray) << signal;
  }
}

// ---- Faults

TEST(ReplayFaults, TheProgramsHandlerGetsAFaultOfItsOwnCode) {
  EXPECT_TRUE(is_delivered({.signal = SIGSEGV, .has_handler = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGSEGV, .has_handler = false}));
}

TEST(ReplayFaults, NoHandlerOfTheProgramGetsAFaultOfACalledFunction) {
  for (int signal : std::initializer_list<int>{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
    EXPECT_FALSE(is_delivered({.signal = signal, .in_call = true, .has_handler = true})) << signal;
}

TEST(ReplayFaults, TheShimHandlesFaultsOfItsProbesOnly) {
  EXPECT_TRUE(is_delivered({.signal = SIGSEGV, .in_shim = true, .probing = true}));
  EXPECT_TRUE(is_delivered({.signal = SIGBUS, .in_shim = true, .probing = true, .in_call = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGSEGV, .in_shim = true, .probing = false, .has_handler = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGSEGV, .in_shim = false, .probing = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGILL, .in_shim = true, .probing = true, .has_handler = true}));
}

TEST(ReplayFaults, TheShimEmulatesOnlyIllegalInstructions) {
  EXPECT_TRUE(is_delivered({.signal = SIGILL, .emulated = true, .has_handler = true}));
  EXPECT_TRUE(is_delivered({.signal = SIGILL, .emulated = true, .in_call = true, .has_handler = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGILL, .emulated = true})) << "the shim has decided that the thread dies";
  EXPECT_FALSE(is_delivered({.signal = SIGSEGV, .emulated = true}));
}

TEST(ReplayFaults, AProgramThatStepsItselfStepsIntoTheShim) {
  EXPECT_TRUE(is_delivered({.signal = SIGTRAP, .code = TRAP_TRACE, .in_shim = true, .has_handler = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGTRAP, .code = TRAP_BRKPT, .in_shim = true, .has_handler = true}));
  EXPECT_FALSE(is_delivered({.signal = SIGTRAP, .code = TRAP_TRACE, .in_shim = true, .has_handler = false}));
  EXPECT_FALSE(is_delivered({.signal = SIGSEGV, .code = TRAP_TRACE, .in_shim = true, .has_handler = true}));
}

// ---- Deaths

constexpr Addr kHere{0x401000}, kThere{0x402000};

RecordedEnd died_of(int signal) { return {.events = 10, .how = NodeEnd::How::signal, .detail = signal}; }

TEST(ReplayDeaths, TheRecordedSignalAfterTheLastEventIsAsRecorded) {
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, died_of(SIGSEGV)), Death::as_recorded);
  EXPECT_EQ(judge_death(SIGFPE, kHere, 10, died_of(SIGSEGV)), Death::unrecorded);
}

TEST(ReplayDeaths, ADeathBeforeTheLastEventIsNeverAsRecorded) {
  for (NodeEnd::How how : {NodeEnd::How::exit, NodeEnd::How::signal, NodeEnd::How::collector, NodeEnd::How::unhandled,
                           NodeEnd::How::replaced, NodeEnd::How::limited, NodeEnd::How::running, NodeEnd::How::unknown})
    for (uint64_t events : {uint64_t{0}, uint64_t{9}})
      EXPECT_EQ(judge_death(SIGSEGV, kHere, events, {.events = 10, .how = how, .detail = SIGSEGV}), Death::unrecorded)
          << static_cast<int>(how) << " after " << events;
}

TEST(ReplayDeaths, AProgramThatExitedOrWasReplacedDidNotDie) {
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, {.events = 10, .how = NodeEnd::How::exit}), Death::unrecorded);
  // Exit code 11 must not be taken for SIGSEGV.
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, {.events = 10, .how = NodeEnd::How::exit, .detail = SIGSEGV}),
            Death::unrecorded);
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, {.events = 10, .how = NodeEnd::How::replaced}), Death::unrecorded);
}

TEST(ReplayDeaths, AProgramThatWasCutOffMayDieOfAnything) {
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, died_of(SIGKILL)), Death::as_recorded);
  for (NodeEnd::How how : {NodeEnd::How::collector, NodeEnd::How::unhandled, NodeEnd::How::limited,
                           NodeEnd::How::running, NodeEnd::How::unknown})
    EXPECT_EQ(judge_death(SIGBUS, kHere, 10, {.events = 10, .how = how}), Death::as_recorded) << static_cast<int>(how);
}

TEST(ReplayDeaths, AFaultAtAnotherInstructionIsADivergence) {
  RecordedEnd recorded = died_of(SIGSEGV);
  recorded.faulted = true;
  recorded.fault_at = kThere.value;
  EXPECT_EQ(judge_death(SIGSEGV, kThere, 10, recorded), Death::as_recorded);
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, recorded), Death::elsewhere);
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 9, recorded), Death::unrecorded);
  EXPECT_EQ(judge_death(SIGFPE, kThere, 10, recorded), Death::unrecorded);
  recorded.fault_at = 0;  // unknown
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, recorded), Death::as_recorded);
  // An address that a damaged header has, although the program did not fault.
  recorded.faulted = false;
  recorded.fault_at = kThere.value;
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 10, recorded), Death::as_recorded);
}

TEST(ReplayDeaths, ANodeWithoutEventsMayDieAtOnce) {
  EXPECT_EQ(judge_death(SIGSEGV, kHere, 0, {.events = 0, .how = NodeEnd::How::signal, .detail = SIGSEGV}),
            Death::as_recorded);
}

// ---- Traps of the shim

struct Reason {
  shim::TrapReason reason;
  ShimTrap meaning;
  bool may_be_in_call;
};
constexpr Reason kReasons[] = {
    {shim::kTrapExit, ShimTrap::exited, false},
    {shim::kTrapEndOfTrace, ShimTrap::end_of_trace, false},
    {shim::kTrapDiverged, ShimTrap::diverged, false},
    {shim::kTrapStopEvent, ShimTrap::waits, false},
    {shim::kTrapSpin, ShimTrap::spin, false},
    {shim::kTrapFailed, ShimTrap::failed, true},
    {shim::kTrapObject, ShimTrap::object, true},
    {shim::kTrapShared, ShimTrap::shared, true},
    {shim::kTrapMappingBegins, ShimTrap::mapping_begins, true},
    {shim::kTrapMappingDone, ShimTrap::mapping_done, true},
};

TEST(ShimTraps, EachReasonHasItsMeaning) {
  for (const Reason& each : kReasons)
    EXPECT_EQ(judge_shim_trap(each.reason, 0, false), each.meaning) << "reason " << each.reason;
}

TEST(ShimTraps, ACalledFunctionCannotReportEvents) {
  for (const Reason& each : kReasons)
    EXPECT_EQ(judge_shim_trap(each.reason, 0, true), each.may_be_in_call ? each.meaning : ShimTrap::nonsense)
        << "reason " << each.reason;
}

TEST(ShimTraps, ADeathNeedsASignal) {
  EXPECT_EQ(judge_shim_trap(shim::kTrapDies, SIGSEGV, false), ShimTrap::dies);
  EXPECT_EQ(judge_shim_trap(shim::kTrapDies, 1, true), ShimTrap::dies);
  EXPECT_EQ(judge_shim_trap(shim::kTrapDies, 64, false), ShimTrap::dies);
  for (int64_t detail : {int64_t{0}, int64_t{-11}, int64_t{65}, int64_t{INT_MAX}, int64_t{INT_MIN}})
    EXPECT_EQ(judge_shim_trap(shim::kTrapDies, detail, false), ShimTrap::nonsense) << detail;
}

// The reason is in the memory of the process, whose code may write anything there.
TEST(ShimTraps, AnyOtherReasonIsNonsense) {
  std::vector<uint32_t> reasons{~0u, 0x80000000u, 1u << 8, 1u << 16};
  for (uint32_t reason = 0; reason < 64; reason++) reasons.push_back(reason);
  for (uint32_t reason : reasons) {
    const bool known = reason == shim::kTrapDies ||
                       std::ranges::any_of(kReasons, [&](const Reason& each) { return each.reason == reason; });
    if (!known) {
      EXPECT_EQ(judge_shim_trap(reason, SIGSEGV, false), ShimTrap::nonsense) << "reason " << reason;
    }
  }
  // These are awaited where a process starts, and never come later.
  EXPECT_EQ(judge_shim_trap(shim::kTrapStarted, 0, false), ShimTrap::nonsense);
  EXPECT_EQ(judge_shim_trap(shim::kTrapForkChild, 0, false), ShimTrap::nonsense);
}

// ---- Ends

TEST(ReplayEnds, AProgramThatEndedByItselfMustNotGoOn) {
  EXPECT_EQ(judge_end_of_trace({.how = NodeEnd::How::exit, .exit_in_trace = true}), EndOfTrace::overrun);
  EXPECT_EQ(judge_end_of_trace({.how = NodeEnd::How::signal, .detail = SIGSEGV, .faulted = true}), EndOfTrace::overrun);
}

TEST(ReplayEnds, WhereTheRecordingStopsTheNodeEnds) {
  for (NodeEnd::How how : {NodeEnd::How::signal, NodeEnd::How::collector, NodeEnd::How::unhandled,
                           NodeEnd::How::replaced, NodeEnd::How::limited, NodeEnd::How::running, NodeEnd::How::unknown})
    for (bool exit_in_trace : {false, true})
      EXPECT_EQ(judge_end_of_trace({.how = how, .exit_in_trace = exit_in_trace}), EndOfTrace::ended)
          << static_cast<int>(how);
  // A parent saw the exit, but the trace was cut off before it.
  EXPECT_EQ(judge_end_of_trace({.how = NodeEnd::How::exit, .exit_in_trace = false}), EndOfTrace::ended);
}

TEST(ReplayEnds, TheEndOfANodeIsReportedOnce) {
  EXPECT_EQ(judge_end(true, false), Stop::Kind::exit);
  EXPECT_EQ(judge_end(true, true), Stop::Kind::exit);  // the next run() reports `end`
  EXPECT_EQ(judge_end(false, false), std::nullopt);
  EXPECT_EQ(judge_end(false, true), Stop::Kind::end);
}

// ---- The verdict on a node

NodeEnd recorded_as(NodeEnd::How how, int64_t detail = 0) { return {.how = how, .detail = detail, .text = {}}; }
NodeOutcome replayed_as(NodeOutcome::How how, int detail = 0, std::string text = {}) {
  return {.how = how, .detail = detail, .text = std::move(text)};
}

TEST(ReplayVerdicts, ANodeThatRepeatedItsRecordingHasNoProblem) {
  using Recorded = NodeEnd::How;
  using Replayed = NodeOutcome::How;
  EXPECT_EQ(judge_node(recorded_as(Recorded::exit, 3), 10, replayed_as(Replayed::exited, 3), 10), std::nullopt);
  EXPECT_EQ(judge_node(recorded_as(Recorded::signal, SIGSEGV), 10, replayed_as(Replayed::signal, SIGSEGV), 10),
            std::nullopt);
  EXPECT_EQ(judge_node(recorded_as(Recorded::running), 10, replayed_as(Replayed::end_of_recording), 10), std::nullopt);
  // A crash before the first event.
  EXPECT_EQ(judge_node(recorded_as(Recorded::signal, SIGSEGV), 0, replayed_as(Replayed::signal, SIGSEGV), 0),
            std::nullopt);
}

TEST(ReplayVerdicts, AnotherExitCodeIsAProblemIfTheCodeWasRecorded) {
  const auto problem = judge_node(recorded_as(NodeEnd::How::exit, 0), 10, replayed_as(NodeOutcome::How::exited, 1), 10);
  EXPECT_EQ(problem, "it was recorded with exit code 0 and replayed with 1");
  EXPECT_EQ(judge_node(recorded_as(NodeEnd::How::unknown), 10, replayed_as(NodeOutcome::How::exited, 1), 10),
            std::nullopt);
}

TEST(ReplayVerdicts, EveryRecordedEventMustBeReplayed) {
  for (NodeEnd::How how : {NodeEnd::How::exit, NodeEnd::How::signal, NodeEnd::How::running, NodeEnd::How::unknown})
    EXPECT_EQ(judge_node(recorded_as(how), 10, replayed_as(NodeOutcome::How::end_of_recording), 9),
              "it replayed only 9 of 10 events");
  EXPECT_EQ(judge_node(recorded_as(NodeEnd::How::exit), 1, replayed_as(NodeOutcome::How::exited), 0),
            "it replayed only 0 of 1 event");
  EXPECT_EQ(judge_node(recorded_as(NodeEnd::How::exit), 0, replayed_as(NodeOutcome::How::none), 0), "it never ran");
}

// Also one that has no events to miss.
TEST(ReplayVerdicts, ANodeThatFailedHasItsReasonAndNoMissingEvents) {
  for (uint64_t recorded : {0, 10})
    EXPECT_EQ(judge_node(recorded_as(NodeEnd::How::unknown), recorded,
                         replayed_as(NodeOutcome::How::failed, 0, "its parent was killed"), 0),
              "its parent was killed");
}

}  // namespace
}  // namespace friday
