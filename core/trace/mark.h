// A position in time as a value: a node, an event of its trace, and an ordinal inside the stretch of program code that
// follows the event (0: just after the event; the meaning of other ordinals is the replay core's, which only promises
// that they grow with execution). Marks of one node compare in execution order; marks of different nodes do so only
// through the schedule (logical_time.h).
#pragma once

#include <compare>
#include <cstdint>

#include "core/base/ids.h"

namespace friday {

struct Mark {
  NodeId node{};
  EventIndex event{};
  uint64_t ordinal = 0;
  auto operator<=>(const Mark&) const = default;
};

}  // namespace friday
