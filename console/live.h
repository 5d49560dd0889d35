// friday info --live: shows whether a recording is being made now, by which process, its size and its rate.
#pragma once

#include <string>

namespace friday {

// Prints the state and returns an exit code.
int show_live(const std::string& recording, bool as_json);

}  // namespace friday
