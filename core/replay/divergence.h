// A divergence: the replayed program did something other than the recorded one. It is a result and not a crash: a value
// that tells where, when and what, and that prints like a diff.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/ids.h"
#include "core/replay/continuity.h"
#include "core/replay/symbols.h"
#include "core/shim/shim_abi.h"

namespace friday {

class Schedule;

// A recorded event close to the one that differs.
struct NeighbourEvent {
  uint64_t index = 0;
  bool differs = false;
  std::string line;
};

struct Divergence {
  NodeId node;
  std::string node_name;
  ThreadId thread;   // the thread that behaved differently
  EventIndex event;  // the first event that differs; one past the last if the recording has no more events
  std::string kind;  // "type", "call", "thread", "argument", "input", "result", "state", "memory", "damaged", "end"
  std::string call;  // the call or signal that occurred instead, for example "write" or "SIGSEGV"
  LogicalTime time;  // logical time of the recorded event
  double since_start = 0;        // the same, in seconds since the recording's first event
  int64_t realtime_ns = 0;       // CLOCK_REALTIME of the node's host
  std::vector<CodePlace> chain;  // the call site, then its callers
  std::string expected, actual;  // one line each
  std::vector<NeighbourEvent> around;
  std::vector<std::string> causes;  // documented limits that may be the cause (causes.h); one sentence each
};

// Explains the report of a thread that stopped in the shim.
Divergence explain(ReplayNode& node, const Schedule& schedule, const shim::DivergenceReport& report, ThreadId thread);

// Explains a thread that continues where the recorded program exited.
Divergence explain_overrun(ReplayNode& node, const Schedule& schedule, ThreadId thread);

// Explains that the memory of a node at its end is not what its next part `next` begins with.
Divergence explain_discontinuity(ReplayNode& node, const Schedule& schedule, ThreadId thread, NodeId next,
                                 const Discontinuity& found);

// Explains the death of a thread by a signal that the recording does not have. `recorded`: where the recorded program
// died of that signal, if that is known and is another place.
Divergence explain_death(ReplayNode& node, const Schedule& schedule, ThreadId thread, int signal,
                         std::optional<Addr> recorded);

// Formats the divergence as several lines, ending in a newline.
std::string describe(const Divergence& divergence);

// For reports and for Python (pyext/friday/errors.py, Divergence._of). Unknown parts of a place are empty or 0.
nlohmann::json to_json(const Divergence& divergence);

}  // namespace friday
