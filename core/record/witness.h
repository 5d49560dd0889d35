// Distinguishes signals sent to a whole process group from signals sent to the recorder alone. `friday record --
// PROGRAM` is in the program's process group, so that the terminal's job control affects both. A signal to the group
// (from the terminal, or from the program's own kill(0, ...)) has reached the program already, while a signal to the
// recorder alone is meant for the program and must be forwarded.
//
// The witness is a child process in the same group that blocks all signals. The kernel signals the members of a group
// in the reverse order in which they joined it; so when the recorder, which joined earlier, sees a signal to the group,
// the witness has already received it. Used by one thread.
#pragma once

#include <csignal>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

class GroupWitness {
 public:
  // Call before the process has other threads, with all relevant signals blocked.
  static Result<GroupWitness> start();
  GroupWitness() = default;
  GroupWitness(GroupWitness&&) noexcept;
  GroupWitness& operator=(GroupWitness&&) noexcept;
  ~GroupWitness();

  // Whether the whole group has received `signal` since the last call for this signal.
  bool saw(int signal);
  // Call when any child process was reaped.
  void ended(pid_t pid);

 private:
  pid_t pid_ = 0;
  UniqueFd channel_;
  uint64_t seen_ = 0;  // bit SIGNAL - 1 is set if saw() has not consumed the signal yet
};

}  // namespace friday
