// Events as JSON objects, for programs: `friday dump --json` prints one a line, and friday.Event.to_json() gives one.
// docs/commands.md names the members. Pure functions of the record; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "core/trace/channels.h"
#include "core/trace/record.h"

namespace friday {

// `seconds`: the event's logical time since the recording's first event, none where the group has no order. `offset`:
// of the event in its trace file, which decides what was known of its channels.
nlohmann::json event_json(NodeId node, const EventView& event, std::optional<double> seconds,
                          const ChannelTable& channels, uint64_t offset);

}  // namespace friday
