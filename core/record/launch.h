// Starting programs under the shim, alone or as a group, and stopping them.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/record/collector.h"

namespace friday {

struct ProgramSpec {
  std::string name;
  std::vector<std::string> command;
  std::string cwd;  // empty: the caller's
  std::map<std::string, std::string> environment;
  double start_delay = 0;      // seconds after the group's start
  std::string output, errors;  // files for stdout and stderr; empty: the caller's
  bool record = true;
  int stop_signal = SIGTERM;
};

struct GroupSpec {
  std::vector<ProgramSpec> programs;
  double stop_after = 0;       // seconds; 0: no limit
  std::string stop_when_ends;  // name of a program; empty: when all have ended
  uint64_t max_size = 0;       // as in CollectorOptions; the command line's own goes first
};

struct LaunchOptions {
  CollectorOptions collector;
  std::string shim;  // path of friday-shim.so
  // Programs of a group file are the recorder's: it stops them. Otherwise one program runs as if its caller had called
  // it directly.
  bool own_process_groups = false;
  // Told at once what somebody should know while the programs run, such as that one keeps others waiting.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

struct LaunchResult {
  int status = 0;  // wait status of the first program
  bool strict_stop = false;
  std::vector<NodeSummary> nodes;
  size_t left_out = 0;  // processes without a trace
  std::string left_out_because;
  std::vector<std::string> notices;  // what this machine made worse than it could be
};

// A name must differ from ids, node lists and the names that Friday makes itself (NAME/child-1, NAME#2).
Result<void> check_node_name(const std::string& name);

// Full path of the program a command names, checked to be one that the shim can record: dynamically linked x86-64 ELF
// (or a script whose interpreter is), not setuid, no file capabilities.
Result<std::string> find_program(const ProgramSpec& program);

// "500M", "20G", "1048576": bytes.
Result<uint64_t> parse_size(const std::string& text);

// Runs the group to its end. Blocks; SIGINT, SIGTERM and SIGHUP end a group in good order, a second one at once. A
// program on its own gets the signals that are sent to this process, and nothing else.
Result<LaunchResult> run_group(const GroupSpec& group, const LaunchOptions& options);

}  // namespace friday
