// Whether a run of a group went well, by what the launcher saw of its end. Pure functions of values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/record/group_spec.h"
#include "core/record/launch.h"

namespace friday {

struct Failure {
  std::string why;  // for example "n2 crashed: SIGSEGV"
  int code = 1;     // for the exit code of friday record
};

// A program that exited with another code than 0.
struct BadExit {
  std::string name;
  int code = 0;
};

// The exit code of a run that took longer than its group file allows, as of timeout(1).
inline constexpr int kHungCode = 124;

// A run has failed if a program or one of its children died of a fault (SIGSEGV, SIGABRT, ...), if it took longer than
// `timeout`, if a program was not ready in time, or if a program of `must_succeed` (by default that of
// `stop_when_ends`) did not exit with 0. A death by the signal with which the group was stopped, and an exit code that
// reports this signal, are no failures.
std::optional<Failure> failure_of(const GroupSpec& group, const LaunchResult& result);

// For example "client (not recorded): exit 3", for each program without a recording that ended badly by itself: nothing
// else says how it ended.
std::vector<std::string> bad_ends_of_unrecorded(const LaunchResult& result);

// The programs whose exit code was not 0 though nobody stopped them, of a group whose file leaves open whether that is
// a failure: it has neither must_succeed nor a check or predicates, and they are not the node of stop_when_ends.
std::vector<BadExit> unjudged_exits(const GroupSpec& group, const LaunchResult& result);

// Whether a node's recording ended because the disk is full.
bool disk_was_full(const LaunchResult& result);

// "exit 3" or "SIGKILL".
std::string end_text(int wait_status);

}  // namespace friday
