// `friday live REC full` and `off`: switches the recording of programs on standby on and off while they run.
#pragma once

#include <string>
#include <vector>

namespace friday {

struct SwitchingOptions {
  std::string recording;
  std::vector<std::string> nodes;  // names or patterns; empty: all
  bool record = true;
};

// Returns the exit code when all processes that are meant have been switched, or could not be.
int switch_recording(const SwitchingOptions& options);

}  // namespace friday
