// One run of a group as a value: the group is recorded once, its checks judge the recording, and the result says
// whether the run has failed and why. Both `friday record --group` and the runs of --until-failure are made of this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/record/group_spec.h"
#include "core/record/launch.h"
#include "core/record/verdict.h"

namespace friday {

struct GroupRunOptions {
  LaunchOptions launch;
  unsigned number = 1;  // of the run: {run}
  // Runs that are made at a time share the free ports, so that no two take the same one: this is the part-th of so
  // many.
  unsigned part = 0, parts = 1;
  // Of random faults and of chaos, 0 to 2^63 - 1; without it the seed of the group file.
  std::optional<uint64_t> seed;
  bool chaos = false;  // the recorded programs are disturbed at random (CollectorOptions::chaos), by that seed
  // Programs without `stdout` or `stderr` write to NAME.log in the recording instead of the caller's output.
  bool keep_output = false;
  // What runs a predicate: these words, the script, the recording.
  std::vector<std::string> predicate_command;
  int interrupt_fd = -1;  // ends a check when it is readable
  // Called when the programs have ended and a check begins, with its name; may be empty.
  std::function<void(const std::string& check)> checking;
};

struct GroupRun {
  enum class Result {
    passed,
    failed,
    undecided,    // a predicate did not come to an answer, for example because the replay diverged
    interrupted,  // by the user
  };
  Result result = Result::passed;
  std::string why;  // one line; empty if the run passed
  int code = 0;     // the exit code of friday record for this run
  double seconds = 0;
  std::optional<uint64_t> seed;  // if chance had a part in what happened to the group
  LaunchResult launch;
  std::vector<BadExit> unjudged{};  // of a run that passed (verdict.h)
};

// Has the group's check and predicates judge the recording that `options` names, and stores in `run` what they say.
Result<void> judge_recording(const GroupSpec& group, const GroupRunOptions& options, GroupRun& run);

// Fails, before anything is started, if a program, the check or a script is missing; or if the run could not be made.
Result<GroupRun> run_group_once(const GroupSpec& group, const GroupRunOptions& options);

}  // namespace friday
