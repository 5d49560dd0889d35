// friday info --missing: what a recording leaves out of what its nodes have received, and who has it.
#pragma once

#include <string>

namespace friday {

// Prints it and returns an exit code: 1 if a node cannot be replayed, as nobody has what it lacks. `nodes`: a node
// list; empty: all.
int show_missing(const std::string& recording, const std::string& nodes, bool as_json);

}  // namespace friday
