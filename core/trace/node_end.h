// How and when a node ended, from everything that the recording knows. The recorder sees the end only of programs that
// it started itself; the end of a forked process is reported only to its parent.
#pragma once

#include <map>

#include "core/trace/logical_time.h"
#include "core/trace/recording.h"

namespace friday {

// Returns `node.end` if that is known, else what a recorded parent learnt from wait(2) or from the siginfo of SIGCHLD.
NodeEnd end_of(const Recording& recording, const Schedule& schedule, const NodeInfo& node);

// The place of a node's end in the total order: after the first `position` events of the group, at logical time `time`.
struct EndPlace {
  uint64_t position;
  LogicalTime time;
};
// The ends of all nodes of `schedule` that have events. A program that exits, or dies from its own fault, ends right
// after its last event. A program killed from outside recorded nothing after its last event but was still alive; its
// end is placed when its recorder saw it gone, and at the latest before the parent's call that reported the end.
std::map<NodeId, EndPlace> places_of_ends(const Recording& recording, const Schedule& schedule);

}  // namespace friday
