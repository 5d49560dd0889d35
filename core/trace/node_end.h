// How a node ended, from all that the recording knows: its recorder sees the end of programs that it started itself; of forked
// ones only their parents are told.
#pragma once

#include "core/trace/logical_time.h"
#include "core/trace/recording.h"

namespace friday {

// `node.end`, or where that is unknown what the recorded parent that waited for the process got from wait(2).
NodeEnd end_of(const Recording& recording, const Schedule& schedule, const NodeInfo& node);

}  // namespace friday
