// Runs of a study against a group that is there already, and goes on: it is recorded only while the script runs
// (`friday record --standby`, `friday diagnose --live`).
#pragma once

#include <string>

#include "console/finished_run.h"
#include "core/trace/switches.h"

namespace friday {

struct LiveGroup {
  std::string recording;
  Keeps keeps = Keeps::everything;  // while the script runs
};

// Switches the recording of the group on, runs `script`, a group of one program, which its recording gets as a node
// too, and switches it off again. What was recorded meanwhile is moved to DIRECTORY/run-NUMBER, and judged there.
Result<FinishedRun> make_live_run(const LiveGroup& live, const GroupSpec& script, GroupRunOptions options,
                                  const std::string& directory, unsigned number);

}  // namespace friday
