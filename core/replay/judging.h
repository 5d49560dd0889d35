// Judges why a replayed thread has stopped, and how a node's replay has ended compared with its recording. The
// functions are pure: they get what ptrace, the shim and the recording report, and traps.cc and verdict.cc act on the
// answer.
//
// Three ends are never confused. A node has *ended* if it did what its recording says, up to the recorded end. It has
// *diverged* if its program did something else. It has *failed* if the replay cannot continue for a reason that is not
// in the recording. Reports of the shim come from the memory of a process whose code is not trusted; a report that
// makes no sense is a failure.
#pragma once

#include <signal.h>

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/replay/stop.h"
#include "core/trace/recording.h"

namespace friday {

// What the recording says about the end of a node.
struct RecordedEnd {
  uint64_t events = 0;  // number of recorded events
  NodeEnd::How how = NodeEnd::How::unknown;
  int64_t detail = 0;          // NodeEnd::detail
  bool exit_in_trace = false;  // the trace itself ends with the exit (TraceReader::ended_by_exit)
  bool faulted = false;        // after its last event the program died of a fault of one of its instructions
  uint64_t fault_at = 0;       // the address of that instruction; 0 if it is unknown
};

// What a signal that has stopped a thread is.
enum class SignalStop {
  trap,        // SIGTRAP, from any source
  fault,       // the kernel raised it for an instruction of the thread
  refused,     // the filter of system calls has refused a call (confinement.h)
  dispatched,  // Syscall User Dispatch has caught a call: the shim's handler must get the signal
  stray,       // something on this machine sent it; the program must not get it
};
// `info` is the thread's siginfo. For SIGTRAP it is not used.
SignalStop judge_signal(int signal, const siginfo_t& info);

// Whether somebody on this machine sent the signal; false if the kernel raised it for something that the thread did.
bool was_sent(int signal, const siginfo_t& info);

// A fault that no watch and no breakpoint has caused.
struct Fault {
  int signal = 0;
  int code = 0;              // si_code
  bool in_shim = false;      // in the shim's own code; code of the program that the shim has moved does not count
  bool probing = false;      // the shim is reading through a pointer of the program
  bool emulated = false;     // at an instruction that the shim has replaced and emulates
  bool in_call = false;      // in a function that the debugger calls
  bool has_handler = false;  // the process has a handler for the signal
};
// Whether a handler in the process gets the signal. Otherwise the thread dies of it.
bool is_delivered(const Fault& fault);

// How the death of a thread compares with the recording.
enum class Death {
  as_recorded,
  elsewhere,   // the recorded program died of this signal, but at another instruction (RecordedEnd::fault_at)
  unrecorded,  // the recorded program did not die of this signal, or not yet
};
// `pc` is the instruction at which the thread dies, `events` the number of events that the node has completed.
Death judge_death(int signal, Addr pc, uint64_t events, const RecordedEnd& recorded);

// What a trap of the shim means.
enum class ShimTrap {
  exited,        // the program has exited, as recorded
  end_of_trace,  // all events are replayed; judge_end_of_trace() tells what that means
  diverged,      // a divergence, which Control::divergence describes
  dies,          // a thread dies of the signal Control::trap_detail, because its stack has no room for the handler
  failed,        // a failure, which Control::text describes
  nonsense,      // no shim reports that: a failure
  // After these the thread continues.
  waits,           // the node waits before an event (ReplaySession::stop_at)
  spin,            // the next event is a yield in a pure spin
  object,          // the shim needs the file of a shared object
  shared,          // the process has mapped or changed a shared object
  mapping_begins,  // a system call is about to change mappings where something is watched
  mapping_done,    // it has done so
};
// `reason` and `detail` are Control::trap_reason and Control::trap_detail. `in_call` says that the thread executes a
// function that the debugger calls. Such a function replays no events, so a trap about events is an old report: the
// function has jumped to the shim's trap instruction.
ShimTrap judge_shim_trap(uint32_t reason, int64_t detail, bool in_call);

// What it means that a node is about to make another event after its last recorded one.
enum class EndOfTrace {
  ended,    // the recording does not say what the program did then
  overrun,  // a divergence: the recorded program ended there
};
EndOfTrace judge_end_of_trace(const RecordedEnd& recorded);

// The kind of stop by which run() reports that a node has ended as recorded; none if it does not report it.
// `report_each`: the end of every node is to be reported. `all_ended`: no other node is left.
std::optional<Stop::Kind> judge_end(bool report_each, bool all_ended);

}  // namespace friday
