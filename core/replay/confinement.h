// What a replayed process may ask of the kernel. Its code is a stranger's, from the recording, the shim's included; so
// what it may do does not depend on who calls, but on a seccomp filter that stands before its first instruction runs
// and that its children inherit. It may manage its own memory, threads and signal handlers, and wait. Whatever names a
// file, a process or a network is refused, and descriptors come from the core alone (descriptor_channel.h). The kernel
// answers a refused call with SIGSYS before it is made, whoever traces and however carelessly; the core sees that
// signal and either answers in the kernel's place or ends the node.
#pragma once

#include <linux/filter.h>
#include <signal.h>
#include <sys/user.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// `channel`: the descriptor on which the process may receive others.
std::vector<sock_filter> replay_filter(int channel);

// Whether the filter lets this call of the 64-bit table pass with some arguments.
bool may_pass_filter(uint64_t call);

// A call that the filter has refused: SIGSYS with this si_code, and what the calling thread had in its registers.
bool is_refused_call(const siginfo_t& info);
// It is `call` of the 64-bit table.
bool is_call_here(const siginfo_t& info, int call);
// "the system call socket(2, 1, 0)"
std::string describe_refused_call(const siginfo_t& info, const user_regs_struct& registers);

// For a process that will execute the stub: no new privileges, no core file, few descriptors, first to be killed when
// memory runs out. Between fork and exec: calls nothing that takes a lock.
void give_up_rights();

}  // namespace friday
