// Consistent cuts of a group, by the number of events that all nodes together have completed in `clock` order: each
// live node waits before its next event. They are where a recording holds checkpoints (saved_checkpoint.h), and where
// parts of a replay begin and end.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/replay/session.h"
#include "core/replay/stop.h"

namespace friday {

// Runs to the cut after so many events. Fails with diverged, of which the message is the report, with interrupted, and
// with component_died if the replay ends before.
Result<void> run_to_cut(ReplaySession& session, uint64_t events);

// The cuts that divide a recording of so many events into at most `count` parts, as equal as its checkpoints allow: a
// part begins at one. Rising, without the start and the end.
Result<std::vector<uint64_t>> cuts_of_parts(const Recording& recording, uint64_t events, uint64_t count);

// Brings a session that stands at its start to the last checkpoint of the recording with at most so many events.
// Returns the number of its events; 0 if there is none, and the group stands at its start. A checkpoint that cannot be
// used is passed over, with a notice of the session.
Result<uint64_t> begin_near(ReplaySession& session, uint64_t events);

// The cut that a user names: a mark, of which what lies inside a node's code does not count, or a time in seconds,
// which is the cut before the first event at or after it. Fails with usage.
Result<uint64_t> cut_named(const Schedule& schedule, std::string_view place);

}  // namespace friday
