// How a replayed process gets the few descriptors it needs, although it can open nothing: the core opens the file,
// sends the descriptor through a socket, and has a stopped thread receive it. One channel serves all processes of a
// session.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/replay/process.h"
#include "core/shim/shim_abi.h"

namespace friday {

class DescriptorChannel {
 public:
  static Result<DescriptorChannel> make();

  // The end that replayed processes have, at TracedProcess::kChannelFd.
  int inner() const { return inner_.get(); }

  // What a process receives with: a `syscall` instruction of its shim's, and memory of its shim's (Control::message).
  // The program's own memory is no place for it: below a stack pointer may lie what a program with small stacks still
  // needs.
  struct Receiver {
    uint64_t instruction, memory;
  };
  static Receiver receiver(const shim::Control& control, uint64_t control_address) {
    return {control.syscall_instruction, control_address + offsetof(shim::Control, message)};
  }

  // Duplicates `fd` into a process by thread `tid`, which is stopped: its number there.
  Result<int> hand_over(TracedProcess& process, pid_t tid, Receiver receiver, int fd) const;

 private:
  UniqueFd outer_, inner_;
};

}  // namespace friday
