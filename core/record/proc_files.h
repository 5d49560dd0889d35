// What /proc says of a process, as far as this user may see it. The process may have ended meanwhile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace friday {

// As the kernel calls it, up to 15 characters; "?": not known.
std::string process_name(pid_t pid);

// The number that the process has for itself, as nodes are described: another one than here in a PID namespace of its
// own.
pid_t own_number(pid_t pid);

// The process that has the number `own` in the PID namespace `space` (the inode of its /proc/PID/ns/pid).
std::optional<pid_t> find_process(pid_t own, uint64_t space);

// What the thread does: R, S, D, T (stopped by a signal), t (by its tracer), Z, ...; 0: there is none.
char thread_state(pid_t pid, pid_t thread);

}  // namespace friday
