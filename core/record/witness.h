// Distinguishes signals sent to a whole process group from signals sent to the recorder alone. `friday record --
// PROGRAM` is in the program's process group, so that the terminal's job control affects both. A signal to the group
// (from the terminal, or from the program's own kill(0, ...)) has reached the program already, while a signal to the
// recorder alone is meant for the program and must be forwarded.
//
// The witness is a child process in the same group that blocks all signals. The kernel signals the members of a group
// in the reverse order in which they joined it; so when the recorder, which joined earlier, sees a signal to the group,
// the witness has already received it. Equal signals that are sent in quick succession are one to the witness (and to
// the kernel, but for real-time signals), so the recorder takes all that it has, asks the witness, and does so again
// until nothing more has come: no signal of the group can then be left of which the witness has already told. Used by
// one thread.
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

  // Asks which signals the whole group has received.
  void look();
  // Whether `signal` was among them, and has not been forgotten since.
  bool saw(int signal) const { return seen_ & bit(signal); }
  void forget(int signal) { seen_ &= ~bit(signal); }
  // Call when any child process was reaped.
  void ended(pid_t pid);

 private:
  pid_t pid_ = 0;
  UniqueFd channel_;
  static uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }
  uint64_t seen_ = 0;  // the bits of signals
};

}  // namespace friday
