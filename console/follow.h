// `friday log --follow`: prints the lines of a recording while it is being made.
#pragma once

#include <string>

#include "console/log_lines.h"
#include "core/trace/recording.h"

namespace friday {

// Prints what was written so far, and then each line when it is complete, until nobody records any more. `nodes`: a
// node list; empty: all nodes, also those that start later. Returns the exit code.
int follow_log(Recording recording, const std::string& nodes, const LineFilter& filter, bool as_json);

}  // namespace friday
