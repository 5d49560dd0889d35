// Gives a replayed process the few descriptors that it needs, although it cannot open files: the core opens the file
// and sends the descriptor through a socket, and a stopped thread of the process is made to receive it. All processes
// of a session share one channel.
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

  // The end of the socket that replayed processes have, at TracedProcess::kChannelFd.
  int inner() const { return inner_.get(); }

  // What the receiving thread uses: a `syscall` instruction in its shim, and memory in its shim (Control::message). The
  // program's own memory must not be used: even the space below its stack pointer may hold data of a program with small
  // stacks.
  struct Receiver {
    uint64_t instruction, memory;
  };
  static Receiver receiver(const shim::Control& control, uint64_t control_address) {
    return {control.syscall_instruction, control_address + offsetof(shim::Control, message)};
  }

  // Duplicates `fd` into the process, using its stopped thread `tid`. Returns the descriptor's number in the process.
  Result<int> hand_over(TracedProcess& process, pid_t tid, Receiver receiver, int fd) const;

 private:
  UniqueFd outer_, inner_;
};

}  // namespace friday
