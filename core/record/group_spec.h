// What is to be recorded: programs, and when a group of them starts and stops. Values without behaviour; group.h reads
// them from a file, launch.h runs them.
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

struct ProgramSpec {
  std::string name;
  std::vector<std::string> command;
  std::string cwd;  // empty: that of the caller
  std::map<std::string, std::string> environment;
  double start_delay = 0;             // seconds after the start of the group, or after those of `after` are ready
  std::string input, output, errors;  // files for stdin, stdout and stderr; empty: those of the caller
  std::string ready;                  // when it is ready (parse_ready); empty: as soon as it is started
  double ready_timeout = 30;          // seconds after its start
  std::vector<std::string> after;     // names of the programs that must be ready before it starts
  bool record = true;
  int stop_signal = SIGTERM;
};

// Something that is done to programs at a time.
struct EventSpec {
  enum class Action { kill, stop, resume, restart };
  double at = 0;  // seconds after the start of the group
  Action action = Action::kill;
  std::vector<std::string> programs;
};

// "kill", "stop", "continue" or "restart".
const char* name_of(EventSpec::Action action);

struct GroupSpec {
  std::vector<ProgramSpec> programs;
  std::vector<EventSpec> events;        // ordered by time
  double stop_after = 0;                // seconds; 0: no limit
  std::string stop_when_ends;           // name of a program; empty: stop when all programs have ended
  double linger = 0;                    // seconds from the end of that program until the group is stopped
  std::vector<std::string> stop_order;  // programs that are stopped one after the other, before all others
  uint64_t max_size = 0;                // as in CollectorOptions; an option on the command line takes precedence
  double timeout = 0;                   // seconds after which a run that has not ended hangs; 0: no limit
  // When a run has failed, besides a crash: programs that must exit with 0, a command, and scripts for `friday run`.
  std::vector<std::string> must_succeed;
  std::vector<std::string> check;
  std::vector<std::string> predicates;
  double check_timeout = 60;  // seconds for the command, and for each script
};

// Fails if the name could be mistaken for an id, a node list, or a name that Friday generates (NAME/child-1, NAME#2).
Result<void> check_node_name(const std::string& name);

// The full path of the program that a command names. Fails if the shim cannot record it: it must be a dynamically
// linked x86-64 ELF file (or a script with such an interpreter), without setuid and file capabilities.
Result<std::string> find_program(const ProgramSpec& program);

inline constexpr uint64_t kLeastMaxSize = 4u << 20;  // of a recording, in bytes

// Parses a size such as "500M", "20G" or "1048576"; the result is in bytes.
Result<uint64_t> parse_size(const std::string& text, uint64_t least = kLeastMaxSize);

}  // namespace friday
