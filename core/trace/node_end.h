// How a node ended, from all that the recording knows: its recorder sees the end of programs that it started itself; of
// forked ones only their parents are told.
#pragma once

#include <map>

#include "core/trace/logical_time.h"
#include "core/trace/recording.h"

namespace friday {

// `node.end`, or where that is unknown what the process's recorded parent was told: by wait(2), or with SIGCHLD.
NodeEnd end_of(const Recording& recording, const Schedule& schedule, const NodeInfo& node);

// Where the end of a node lies in the group's order: behind so many of its events, and at this time.
struct EndPlace {
  uint64_t position;
  LogicalTime time;
};
// Of all nodes of `schedule` that have events. A program that exits, or dies of what it does itself, ends right behind
// its last event. One that others killed has done nothing that is recorded since its last event, but it lived: it ends
// when its recorder saw that it was gone, at the latest before the call of its parent's that told of it.
std::map<NodeId, EndPlace> places_of_ends(const Recording& recording, const Schedule& schedule);

}  // namespace friday
