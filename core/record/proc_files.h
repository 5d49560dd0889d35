// Reads what /proc tells about a process, as far as this user may see it. The process may end at any time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace friday {

// The kernel's name of the process, up to 15 characters; "?" if unknown.
std::string process_name(pid_t pid);

// The pid of the process in its own PID namespace, which nodes are described with.
pid_t own_number(pid_t pid);

// The process whose pid is `own` in the PID namespace `space` (the inode of its /proc/PID/ns/pid).
std::optional<pid_t> find_process(pid_t own, uint64_t space);

// The thread's state: R, S, D, T (stopped by a signal), t (stopped by a tracer), Z, ...; 0 if it does not exist.
char thread_state(pid_t pid, pid_t thread);

}  // namespace friday
