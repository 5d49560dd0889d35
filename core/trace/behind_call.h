// When a thread comes out of a call, as the trace tells: other threads and handlers of signals may have their events
// first.
#pragma once

#include <cstdint>
#include <optional>

#include "core/trace/reader.h"

namespace friday {

// How many events the node has completed when the thread executes the instruction behind the call whose event stands at
// this offset of the trace. None if that is not known: the call is made again, a handler does not return or may
// not have returned where it seems to, since faults have handlers, too, or the next few thousand records do not tell.
std::optional<uint64_t> events_behind_call(const TraceReader& reader, uint64_t offset);

}  // namespace friday
