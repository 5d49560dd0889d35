// Why a replayed group stands: one value on the way from the replay up to Python. The replay makes it; the debugger
// adds which of the user's stop points are meant and what they say (core/debug/debug_stop.h); the binding
// shows it. No layer translates it into a type of its own.
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

// Who stored to memory that several nodes share: where it stands, and how many events it had done.
struct StopWriter {
  NodeId node{};
  ThreadId thread{};
  Addr pc{};
  uint64_t events = 0;
};

struct Stop {
  enum class Kind {
    started,     // all nodes stand at their start
    breakpoint,  // `owners`; pc on the breakpoint
    watch,       // `hits`; just after the store
    step,        // step() is done
    signal,      // the program's own fault, about to end the node: `signal`
    exit,        // one node's replay is over, as its recording has it: see its outcome()
    end,         // every node's is
    event,       // stop_at was reached
    interrupt,
    divergence,  // a node did something else than its recording: `divergence`
    failure,     // replay cannot go on, and the recording has nothing to do with it: `message`
    // Only the debugger's.
    timer,    // a timer is due; the node stands before the next event
    pause,    // the time given to a run is over
    reached,  // run_to() is done
  };
  Kind kind = Kind::started;
  NodeId node{};
  ThreadId thread{};
  Addr pc{};
  std::vector<BreakpointOwner> owners{};
  std::vector<WatchHit> hits{};
  std::optional<StopWriter> writer{};  // watch: another node than `node` has stored
  std::vector<StopPointId> told{};     // watch: stop points that the writer's own stop has told of
  int signal = 0;
  std::string message{};
  std::shared_ptr<const Divergence> divergence{};
};

// As Python and reports have it: "breakpoint", "divergence". `signal` is "exit": so the node's replay ends.
const char* name_of(Stop::Kind kind);

}  // namespace friday
