// `friday verify --slices`: replays parts of a recording at the same time, each in a process of its own.
#pragma once

#include <cstdint>
#include <string>

#include "core/replay/session.h"

namespace friday {

// Replays at most `slices` parts, as many at a time as there are processors. Each begins at a checkpoint of the
// recording and ends at the next one, where the state of all nodes must be what that one holds; so together they verify
// what one replay would. Prints the result, as JSON if `json`, and returns the exit code.
int verify_slices(const std::string& recording, const ReplayOptions& options, uint64_t slices, bool json);

}  // namespace friday
