// Which system calls of recorded programs were refused (REFUSE in calls.def) and may have mattered to them. The shim
// counts them in the header of each trace; recordings of earlier versions have no counts. Calls that today's kernels do
// not have either, and calls that the C library replaces by others without the program noticing, are left out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/recording.h"

namespace friday {

struct RefusedCalls {
  unsigned call;
  std::vector<std::pair<NodeId, uint64_t>> nodes;  // that made it, and how often

  uint64_t count() const;
  std::string why() const;     // for example "a process cannot be traced while it is recorded"
  std::string advice() const;  // what to do about it
};

// By call. Reads the header of each trace; a node whose trace cannot be read is left out.
std::vector<RefusedCalls> refusals_of(const Recording& recording);

// A sentence for people: "ptrace was refused with ENOSYS 3 times in node n1 (...)". At most a few nodes are named.
std::string describe(const Recording& recording, const RefusedCalls& refusal);

}  // namespace friday
