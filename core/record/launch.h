// Starts programs under the shim, alone or as a group, and stops them.
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
  std::string cwd;  // empty: that of the caller
  std::map<std::string, std::string> environment;
  double start_delay = 0;      // seconds after the start of the group
  std::string output, errors;  // files for stdout and stderr; empty: those of the caller
  bool record = true;
  int stop_signal = SIGTERM;
};

struct GroupSpec {
  std::vector<ProgramSpec> programs;
  double stop_after = 0;       // seconds; 0: no limit
  std::string stop_when_ends;  // name of a program; empty: stop when all programs have ended
  uint64_t max_size = 0;       // as in CollectorOptions; an option on the command line takes precedence
};

struct LaunchOptions {
  CollectorOptions collector;
  std::string shim;  // path of friday-shim.so
  // True for the programs of a group file, which the recorder starts and stops itself. False for a single program,
  // which runs as if the caller had started it directly.
  bool own_process_groups = false;
  // Called at once with messages for the user while the programs run, for example if one keeps others waiting.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

struct LaunchResult {
  int status = 0;  // wait status of the first program
  bool strict_stop = false;
  std::vector<NodeSummary> nodes;
  size_t left_out = 0;  // number of processes without a trace
  std::string left_out_because;
  std::vector<std::string> notices;  // what this machine prevents or slows down
};

// Fails if the name could be mistaken for an id, a node list, or a name that Friday generates (NAME/child-1, NAME#2).
Result<void> check_node_name(const std::string& name);

// The full path of the program that a command names. Fails if the shim cannot record it: it must be a dynamically
// linked x86-64 ELF file (or a script with such an interpreter), without setuid and file capabilities.
Result<std::string> find_program(const ProgramSpec& program);

// Parses a size such as "500M", "20G" or "1048576"; the result is in bytes.
Result<uint64_t> parse_size(const std::string& text);

// Runs the group until it ends (blocking). SIGINT, SIGTERM and SIGHUP stop a group in an orderly way; a second signal
// kills it. If a single program is run, signals sent to this process are forwarded to it.
Result<LaunchResult> run_group(const GroupSpec& group, const LaunchOptions& options);

}  // namespace friday
