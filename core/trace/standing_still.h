// Recorders and who copies a recording meanwhile: a lock on the recording's directory `nodes` (flock(2)). Recorders
// move blocks of traces to the compressed files, and remove old parts, only while they hold it shared; what the
// programs store goes on. One holder at a time stands it still.
#pragma once

#include <chrono>
#include <string>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

// Opens what the lock is on.
Result<UniqueFd> open_standing_still(const std::string& recording);

// For recorders: takes the lock shared if nobody holds the files still. Released by end_moving().
bool try_moving(const UniqueFd& lock);
void end_moving(const UniqueFd& lock);

// For who copies: waits until no recorder moves anything, at most so long. Holds until the descriptor is closed.
Result<UniqueFd> stand_still(const std::string& recording, std::chrono::milliseconds at_most);

}  // namespace friday
