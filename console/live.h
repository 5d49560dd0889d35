// friday info --live: whether a recording is being made right now, by whom, how much, how fast.
#pragma once

#include <string>

namespace friday {

// Prints; returns an exit code.
int show_live(const std::string& recording, bool as_json);

}  // namespace friday
