// What the kernel keeps for a replayed process besides its memory and its registers. A copy made by clone(2) has it; a
// process that is made from a file gets it by these functions. All of them execute calls in the stopped thread `tid`,
// and overwrite ReplayNode::receiver().memory.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "core/base/error.h"
#include "core/replay/node.h"

namespace friday {

// The signal stack of a thread, as sigaltstack(2) has it: ss_sp, ss_flags, ss_size.
Result<void> read_signal_stack(ReplayNode& node, pid_t tid, uint64_t (&stack)[3]);
Result<void> set_signal_stack(ReplayNode& node, pid_t tid, const uint64_t (&stack)[3]);

// Of a process: what happens at the signals that the kernel raises for an instruction (kernel_sigaction of
// rt_sigaction(2): handler, flags, restorer, mask), how far its stack grows, and what the shim sets of personality(2)
// (replay_setting() in core/shim/memory.cc). Other signals never reach a replayed process.
struct KernelState {
  static constexpr size_t kSignals = 6;
  std::array<std::array<uint64_t, 4>, kSignals> actions{};
  uint64_t stack_limit = 0;        // RLIMIT_STACK, in bytes
  uint64_t read_implies_exec = 0;  // READ_IMPLIES_EXEC, or 0
};
Result<KernelState> read_kernel_state(ReplayNode& node, pid_t tid);
// A stack limit beyond the hard one of the process is cut to that.
Result<void> set_kernel_state(ReplayNode& node, pid_t tid, const KernelState& state);

}  // namespace friday
