// Why the group stopped, for the user: the replay's Stop, with the stop points that were hit and the values that
// changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/debug/types.h"
#include "core/replay/stop.h"
#include "core/trace/mark.h"

namespace friday {

// What a store changed at a watchpoint. If it changed several of its expressions, the first one is reported.
struct WatchChange {
  uint32_t id = 0;
  std::string expression;
  std::optional<RawValue> old_value,
      new_value;  // none if the expression has no value, for example behind a null pointer
};

// Never of the kind `started`, `event` or `signal` (which becomes `exit`).
struct DebugStop : Stop {
  std::vector<uint32_t>
      ids;  // for breakpoint, watch, timer, caught, and exit by a signal: the stop points that were hit
  std::vector<WatchChange> changes;  // for watch: one for each of `ids`
  std::string returned{};            // for step, by finish: the value that the function returned, "$1 = 5"
  // Where the group stands, if that is known without a run that counts (Backward::position()): before an event, at an
  // end, and at a breakpoint or a watched write whose stop point was set before the node's last event.
  std::optional<Mark> mark{};
  std::string caught{};  // for caught: the event, for example "write(1, 0x7f3c10, 12) = 12"
};

inline DebugStop with_kind(Stop stop, Stop::Kind kind) {
  DebugStop out{std::move(stop), {}, {}};
  out.kind = kind;
  return out;
}

}  // namespace friday
