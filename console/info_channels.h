// friday info --channels: what moved through the channels of nodes, and what of it the recording leaves out.
#pragma once

#include <string>

namespace friday {

// Prints it and returns an exit code. `nodes`: a node list; empty: all.
int show_channels(const std::string& recording, const std::string& nodes, bool as_json);

}  // namespace friday
