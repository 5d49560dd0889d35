// The trials behind `friday doctor`: each does what record or replay will do, in a child where it could do harm, and
// says what the kernel answered. They take well under a second together, but for the trial of gdb.
#pragma once

#include <string>
#include <vector>

#include "core/base/refusals.h"

namespace friday {

enum class NeededFor { both, record, replay, speed, nothing };
const char* name_of(NeededFor needed);

struct MachineCheck {
  const char* name;  // what is tried, a few words
  Refusal refusal;
  NeededFor needed;
  bool works;
  std::string found;  // what was seen: the kernel's answer, a version, a limit
};

// `directory`: where recordings are to be made.
std::vector<MachineCheck> check_machine(const std::string& directory, const std::string& gdb);

// Facts of the surroundings that explain the rest: kernel, yama, seccomp filter, user.
std::vector<std::pair<std::string, std::string>> describe_machine();

}  // namespace friday
