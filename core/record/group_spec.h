// What is to be recorded: programs, and when a group of them starts and stops. Values without behaviour; group.h reads
// them from a file, launch.h runs them.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/record/links.h"

namespace friday {

struct ProgramSpec {
  std::string name;
  std::string host;  // of the group's network; empty if it has none
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

// Something that is done at a time: to programs, or to the network between them.
struct EventSpec {
  enum class Action { kill, stop, resume, restart, partition, heal, delay, loss };
  double at = 0;  // seconds after the start of the group
  Action action = Action::kill;
  std::vector<std::string> programs;  // to which it happens, or whose packets it concerns
  std::vector<LinkChange> links;      // what the network is told; empty for what happens to programs
  std::string detail;                 // for people: "n1 | n2, n3", "n1 - n2: 50 ms"; empty for what happens to programs
};

// "kill", "stop", "continue", "restart", "partition", "heal", "delay" or "loss".
const char* name_of(EventSpec::Action action);

// The hosts on which the programs run, if the group has a network of its own (network.h).
struct NetworkSpec {
  std::vector<std::string> hosts;  // host i has the address first_address + i; empty: the group has no such network
  uint32_t first_address = 0x0a4d0001;  // 10.77.0.1, in host byte order: the one behind the address of the subnet
  unsigned prefix = 24;                 // of the subnet, in bits: 8 to 30
  LinkDefaults links;                   // of each link, as long as no event changes it
  uint64_t seed = 1;                    // of the fates of packets

  uint32_t broadcast() const { return first_address | (~0u >> prefix); }
  static constexpr size_t kMostHosts = 250;
  size_t room() const { return std::min<size_t>(kMostHosts, (~0u >> prefix) - 1); }  // most hosts that it can have
  // "10.77.0.2", the address of a host of this network.
  std::string address_of(const std::string& host) const;
};

// Faults that are drawn by chance (faults.h).
struct RandomFaultsSpec {
  std::string seed = "{run}";            // a number, or a text with placeholders that becomes one
  std::vector<EventSpec::Action> kinds;  // kill, stop, partition, delay, loss; empty: none are drawn
  std::vector<std::string> programs;     // to which they happen
  double from = 0, until = 0;            // seconds after the start of the group: of the first and the last of them
  double every = 0, lasts = 0;           // mean seconds from the end of one to the next, and of one
  double most_delay_ms = 0, most_percent = 0;  // of delay and loss
};

struct GroupSpec {
  std::vector<ProgramSpec> programs;
  std::vector<EventSpec> events;  // ordered by time
  NetworkSpec network;
  RandomFaultsSpec faults;
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
// A time such as 30s, 10m or 2h, in nanoseconds; at least a second, and at most a year.
Result<int64_t> parse_time(const std::string& text);

}  // namespace friday
