// A position in time as a value: a node, an event of its trace, and an ordinal within the program code that runs
// between this event and the next. Ordinal 0 is the point just after the event; the replay core defines all others and
// promises only that they increase as the program executes. Marks of one node compare in execution order. Marks of
// different nodes can be ordered only through a Schedule (logical_time.h).
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
