// Why a replayed group stopped. One type from the replay up to Python: the replay creates the value, the debugger adds
// which of the user's stop points were hit (DebugStop, core/debug/debug_stop.h), and the Python binding shows it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/replay/divergence.h"
#include "core/stop/breakpoints.h"
#include "core/stop/watch.h"

namespace friday {

// The node that stored to memory that it shares with others, at the moment of the store.
struct StopWriter {
  NodeId node{};
  ThreadId thread{};
  Addr pc{};
  uint64_t events = 0;  // number of events that the node had completed
};

struct Stop {
  enum class Kind {
    started,     // nothing has run yet
    breakpoint,  // `thread` is about to execute the instruction at `pc`, where `owners` have breakpoints
    watch,       // a store or a system call changed watched memory (`hits`) and is complete
    step,        // ReplaySession::step() is done
    // `thread` was about to die of `signal`. The node has ended with that, as recorded; but if the thread was executing
    // a function that the debugger calls, the node lives and the debugger must end the call.
    signal,
    exit,        // the node has ended as recorded; ReplayNode::outcome() tells how
    end,         // all nodes have ended
    event,       // the node waits before the event that ReplaySession::stop_at() named
    interrupt,   // interrupt() was called, ReplaySession::deadline has passed, or run_detour() has given up a call
    divergence,  // the node did something other than what was recorded: `divergence`
    failure,     // the replay cannot continue, for a reason that is not in the recording: `message`
    // The debugger makes these; the replay never does.
    caught,   // a catchpoint wants the event before which the node waits
    timer,    // a timer is due, and the node waits before its next event
    pause,    // the time limit of the run has passed
    reached,  // Runner::run_to() is done
  };
  Kind kind = Kind::started;
  NodeId node{};      // for `end`, and for `interrupt` if no node is live: not set
  ThreadId thread{};  // as `node`
  // For breakpoint, step and signal: the next instruction. For watch: the storing instruction, the one after it if a
  // debug register detected the store, or the system call instruction if a call stored. Otherwise 0.
  Addr pc{};
  std::vector<BreakpointOwner> owners{};  // for breakpoint
  std::vector<WatchHit> hits{};           // for watch
  std::optional<StopWriter> writer{};     // for watch: the node that stored, if it is not `node`
  std::vector<StopPointId> told{};        // for watch: stop points that the stop of the writer has reported already
  int signal = 0;                         // for signal, and for exit if that ended the node: its Linux number
  std::string message{};                  // a sentence for people; may be empty
  std::shared_ptr<const Divergence> divergence{};  // for divergence; null for all other kinds
};

// The name of the kind in Python and in reports, for example "breakpoint". It is "exit" for `signal` too, because the
// signal ends the node.
const char* name_of(Stop::Kind kind);

}  // namespace friday
