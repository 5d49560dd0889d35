// Information from /proc about other processes. A pid may be reused; a pid together with its start time identifies a
// process uniquely until the machine is rebooted.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace friday {

// In clock ticks since boot; 0 if the process does not exist or is a zombie.
uint64_t process_start(pid_t pid);

}  // namespace friday
