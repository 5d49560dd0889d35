// A divergence: the replayed program did something else than the recorded one. A result, not a crash: a value that says
// where, when and what, and prints like a diff.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/ids.h"
#include "core/replay/symbols.h"
#include "core/shim/shim_abi.h"

namespace friday {

class Recording;
class Schedule;

// An event of the recording beside the one that differs.
struct NeighbourEvent {
  uint64_t index = 0;
  bool differs = false;
  std::string line;
};

struct Divergence {
  NodeId node;
  std::string node_name;
  ThreadId thread;               // that did something else
  EventIndex event;              // the first one that differs; one past the last when the recording has no more
  std::string kind;              // "type", "call", "thread", "argument", "input", "result", "state", "damaged", "end"
  std::string call;              // what the thread did instead, by name: "write", "SIGSEGV"
  LogicalTime time;              // of the event as recorded
  double since_start = 0;        // the same in seconds since the recording's first event
  int64_t realtime_ns = 0;       // on the clock of the node's host
  std::vector<CodePlace> chain;  // the call site, then its callers
  std::string expected, actual;  // one line each
  std::vector<NeighbourEvent> around;
  std::vector<std::string> causes;  // what the recording does not hold and may be why; a sentence each
};

// Of a thread that stopped in the shim with a report.
Divergence explain(ReplayNode& node, const Schedule& schedule, const shim::DivergenceReport& report, ThreadId thread);

// Of a thread that goes on where the recorded program had exited.
Divergence explain_overrun(ReplayNode& node, const Schedule& schedule, ThreadId thread);

// Of a thread about to die of a signal that the recording does not have.
// `recorded`: where the recorded program died of it, if that is known and it dies elsewhere now.
Divergence explain_death(ReplayNode& node, const Schedule& schedule, ThreadId thread, int signal,
                         std::optional<Addr> recorded);

// What is known of writers of the node's memory that the recording does not hold: processes outside, and programs that
// outlived their recording.
std::vector<std::string> possible_causes(const Recording& recording, const Schedule& schedule, NodeId node);

// Several lines, ending in a newline.
std::string describe(const Divergence& divergence);

// For reports and for Python (pyext/friday/errors.py, Divergence._of). What is not known of a place is empty or 0.
nlohmann::json to_json(const Divergence& divergence);

}  // namespace friday
