// Why the group stands, as the user sees it: the replay's Stop with the stop points that were hit and what they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/debug/types.h"
#include "core/replay/stop.h"

namespace friday {

// What one store did to a stop point: the first of its expressions that changed.
struct WatchChange {
  uint32_t id = 0;
  std::string expression;
  std::optional<RawValue> old_value, new_value;  // none: undefined
};

// Of the replay's kinds `started` and `event` are never seen here.
struct DebugStop : Stop {
  std::vector<uint32_t> ids;         // breakpoint, watch, timer: the stop points that were hit
  std::vector<WatchChange> changes;  // watch: of each of `ids`
};

}  // namespace friday
