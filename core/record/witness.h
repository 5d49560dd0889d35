// Tells signals that came to a whole process group from those that came to the recorder alone. `friday record --
// PROGRAM` is in the program's process group, so that the terminal's job control finds both; what is sent to the group,
// by the terminal or by the program's own kill(0, ...), the program has got already, and what is sent to the recorder
// alone is meant for the program.
//
// The witness is a child process in the same group that blocks every signal. The kernel signals the members of a group
// in the reverse order in which they came into it, so what a member finds that came later the witness has found before.
// Used by one thread.
#pragma once

#include <csignal>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

class GroupWitness {
 public:
  // To be called before the process has threads, with all signals blocked that are of interest.
  static Result<GroupWitness> start();
  GroupWitness() = default;
  GroupWitness(GroupWitness&&) noexcept;
  GroupWitness& operator=(GroupWitness&&) noexcept;
  ~GroupWitness();

  // Whether the whole group has been sent `signal` since this was last asked about it.
  bool saw(int signal);
  // Some child has been waited for.
  void ended(pid_t pid);

 private:
  pid_t pid_ = 0;
  UniqueFd channel_;
  uint64_t seen_ = 0;  // bit SIGNAL - 1: not asked about yet
};

}  // namespace friday
