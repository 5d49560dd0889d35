// Restricts the system calls of replayed processes. Their code, including the shim's, comes from the recording and is
// not trusted, so the restriction must not depend on which code makes a call: it is a seccomp filter that is in place
// before the first instruction runs and that children inherit. The process may manage its own memory, threads and
// signal handlers, and wait. Every call that names a file, a process or a network is refused, and descriptors come only
// from the core (descriptor_channel.h). For a refused call the kernel raises SIGSYS before the call is made, regardless
// of the tracer; the core sees the signal and either answers in place of the kernel or ends the node.
#pragma once

#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <sys/user.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// The flags of clone(2) by which the core has a process copy itself for a checkpoint (checkpoint.h). The copy is a
// child of the process's parent: it must not signal the process when it ends, or be left to it as a zombie.
inline constexpr uint32_t kTwinFlags = CLONE_PARENT | SIGCHLD;

// Of a thread that is made again. The kernel would set and clear thread ids in memory that holds the recorded ones.
inline constexpr uint64_t kThreadFlags =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

// `channel` is the descriptor on which the process may receive others.
std::vector<sock_filter> replay_filter(int channel);

// Whether the filter allows this call of the 64-bit table for at least some arguments.
bool may_pass_filter(uint64_t call);

// Whether the signal is the filter's refusal of a call: SIGSYS with the si_code of seccomp.
bool is_refused_call(const siginfo_t& info);
// Whether the refused call is `call` of the 64-bit table.
bool is_call_here(const siginfo_t& info, int call);
// For example "the system call socket(2, 1, 0)". `registers` are those of the calling thread.
std::string describe_refused_call(const siginfo_t& info, const user_regs_struct& registers);

// Drops the rights of a process that is about to execute friday-stub: no new privileges, no core file, few descriptors,
// first candidate of the out-of-memory killer. Async-signal-safe, for use between fork and exec.
void give_up_rights();

}  // namespace friday
