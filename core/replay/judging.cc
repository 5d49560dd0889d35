#include "core/replay/judging.h"

#include "core/replay/confinement.h"
#include "core/shim/shim_abi.h"

namespace friday {
namespace {

// Whether it matches the recording that the node dies of `signal` now. A program that was killed from outside, or whose
// recording was cut off, may run on after its last event, so any death there matches.
bool dies_as_recorded(int signal, uint64_t events, const RecordedEnd& recorded) {
  if (events < recorded.events) return false;
  if (recorded.how == NodeEnd::How::signal) return recorded.detail == signal || recorded.detail == SIGKILL;
  return recorded.how != NodeEnd::How::exit && recorded.how != NodeEnd::How::replaced &&
         recorded.how != NodeEnd::How::continued;
}

}  // namespace

bool was_sent(int signal, const siginfo_t& info) { return info.si_signo == signal && info.si_code <= 0; }

SignalStop judge_signal(int signal, const siginfo_t& info) {
  switch (signal) {
    case SIGTRAP: return SignalStop::trap;
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL: return was_sent(signal, info) ? SignalStop::stray : SignalStop::fault;
    case SIGSYS:
      if (is_refused_call(info)) return SignalStop::refused;
      return was_sent(signal, info) ? SignalStop::stray : SignalStop::dispatched;
    default: return SignalStop::stray;  // the shim delivers recorded signals by itself
  }
}

bool is_delivered(const Fault& fault) {
  // The shim put an illegal instruction there, for its own handler, which it has taken away if the thread is to die.
  if (fault.signal == SIGILL && fault.emulated) return fault.has_handler;
  // The shim handles faults of its reads through pointers of the program.
  if (fault.signal != SIGILL && fault.in_shim && fault.probing) return true;
  // A program that single-steps itself steps into the shim, whose handler hides that from the program.
  const bool stepped = fault.signal == SIGTRAP && fault.code == TRAP_TRACE;
  return !fault.in_call && (!fault.in_shim || stepped) && fault.has_handler;
}

Death judge_death(int signal, Addr pc, uint64_t events, const RecordedEnd& recorded) {
  if (!dies_as_recorded(signal, events, recorded)) return Death::unrecorded;
  if (recorded.faulted && recorded.fault_at && recorded.fault_at != pc.value) return Death::elsewhere;
  return Death::as_recorded;
}

ShimTrap judge_shim_trap(uint32_t reason, int64_t detail, bool in_call) {
  const auto of_replay = [in_call](ShimTrap trap) { return in_call ? ShimTrap::nonsense : trap; };
  switch (reason) {
    case shim::kTrapExit: return of_replay(ShimTrap::exited);
    case shim::kTrapEndOfTrace: return of_replay(ShimTrap::end_of_trace);
    case shim::kTrapDiverged: return of_replay(ShimTrap::diverged);
    case shim::kTrapStopEvent: return of_replay(ShimTrap::waits);
    case shim::kTrapSpin: return of_replay(ShimTrap::spin);
    case shim::kTrapDies: return detail > 0 && detail < NSIG ? ShimTrap::dies : ShimTrap::nonsense;
    case shim::kTrapFailed: return ShimTrap::failed;
    case shim::kTrapObject: return ShimTrap::object;
    case shim::kTrapShared: return ShimTrap::shared;
    case shim::kTrapMappingBegins: return ShimTrap::mapping_begins;
    case shim::kTrapMappingDone: return ShimTrap::mapping_done;
    default: return ShimTrap::nonsense;
  }
}

EndOfTrace judge_end_of_trace(const RecordedEnd& recorded) {
  const bool exited = recorded.how == NodeEnd::How::exit && recorded.exit_in_trace;
  return exited || recorded.faulted ? EndOfTrace::overrun : EndOfTrace::ended;
}

std::optional<Stop::Kind> judge_end(bool report_each, bool all_ended) {
  if (report_each) return Stop::Kind::exit;
  return all_ended ? std::optional(Stop::Kind::end) : std::nullopt;
}

}  // namespace friday
