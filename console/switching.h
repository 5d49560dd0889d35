// `friday live REC full`, `schedule` and `off`: switches the recording of programs on standby on and off while they
// run.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/switches.h"

namespace friday {

struct SwitchingOptions {
  std::string recording;
  std::vector<std::string> nodes;  // names or patterns; empty: all
  Keeps keeps = Keeps::everything;
};

struct Switched {
  std::string done;                    // the names of the nodes that are as they shall be
  std::vector<std::string> left_over;  // of each that is not: its name, and why
};

// Returns when all processes that are meant have been switched, or could not be. Fails if there are none, or if they
// are not on standby, and with io.
Result<Switched> switch_nodes(const SwitchingOptions& options);

// The same for a person. Returns the exit code when all processes that are meant have been switched, or could not be.
int switch_recording(const SwitchingOptions& options);

}  // namespace friday
