// With which events a node received the payload that its trace leaves out.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/error.h"
#include "core/trace/left_out.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

// The node that has sent the bytes; nullptr if the recording does not have it, or its trace cannot be read.
const NodeInfo* sender_of(const Recording& recording, const LeftOut& range);

// Calls `each` with each range that the trace leaves out, in the order of the trace, with the event that received it
// and the address at which it put it into the program's memory. Fails with bad_file if a range is not what an event put
// into the memory.
Result<void> for_each_left_out(const TraceReader& trace,
                               const std::function<void(EventView event, uint64_t address, const LeftOut&)>& each);

}  // namespace friday
