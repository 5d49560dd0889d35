// Starts programs under the shim, alone or as a group, and stops them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/record/collector.h"
#include "core/record/group_spec.h"

namespace friday {

struct LaunchOptions {
  CollectorOptions collector;
  std::string shim;  // path of friday-shim.so
  // True for the programs of a group file, which the recorder starts and stops itself. False for a single program,
  // which runs as if the caller had started it directly.
  bool own_process_groups = false;
  // Called at once with messages for the user while the programs run, for example if one keeps others waiting.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  // Called about once a second while the programs run; may be empty.
  std::function<void()> every_second;
  // A directory that is created inside the recording before the programs start; empty: none.
  std::string directory;
};

// How a program of the group, not one of its children, ended.
struct ProgramEnd {
  std::string name;
  bool recorded = true;
  bool started = false;
  int status = -1;      // wait status
  int stopped_by = 0;   // the stop signal that the group sent it; 0: none
  bool killed = false;  // it did not end after the stop signal in time, or the user had no time
};

enum class GroupEnd {
  programs_ended,  // by themselves
  stop_after,      // the time of the group file was over
  node_ended,      // the node of stop_when_ends
  timeout,         // it took longer than the group file allows
  interrupted,     // a signal to this process
  strict,          // a system call that is not handled
  not_ready,       // a program was not ready in time, or ended before it was
  not_forced,      // the order of messages that was to be forced could not come true (ShaperOptions::stops)
  network_lost,    // the relay of the group's network ended
};

struct LaunchResult {
  int status = 0;  // wait status of the first program
  GroupEnd ended_by = GroupEnd::programs_ended;
  std::string not_ready;             // for `not_ready`: which program, and why
  int not_ready_status = -1;         // its wait status, if it had ended
  std::vector<ProgramEnd> programs;  // a program that was restarted is listed once for each start
  std::vector<NodeSummary> nodes;
  size_t left_out = 0;  // number of processes without a trace
  std::string left_out_because;
  std::vector<std::string> notices;  // what this machine prevents or slows down
};

// Runs the group until it ends (blocking). SIGINT, SIGTERM and SIGHUP stop a group in an orderly way; a second signal
// kills it. If a single program is run, signals sent to this process are forwarded to it.
Result<LaunchResult> run_group(const GroupSpec& group, const LaunchOptions& options);

}  // namespace friday
