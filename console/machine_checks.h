// The checks of `friday doctor`. Each tries what record or replay will do, in a child process if it could do harm, and
// reports the kernel's answer. Together they take well under a second, except for the check of gdb.
#pragma once

#include <string>
#include <vector>

#include "core/base/refusals.h"

namespace friday {

enum class NeededFor { both, record, replay, speed, nothing };
const char* name_of(NeededFor needed);

struct MachineCheck {
  const char* name;  // what is tried, in a few words
  Refusal refusal;
  NeededFor needed;
  bool works;
  std::string found;  // the kernel's answer, a version or a limit
};

// `directory` is where recordings will be made.
std::vector<MachineCheck> check_machine(const std::string& directory, const std::string& gdb);

// Facts that explain the results: kernel, yama, seccomp filter, user.
std::vector<std::pair<std::string, std::string>> describe_machine();

}  // namespace friday
