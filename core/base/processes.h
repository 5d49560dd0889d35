// What /proc tells about other processes. A pid by itself may have been given to another process since: pid and start
// time name one for good, as long as the machine runs.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace friday {

// In clock ticks since the machine's start; 0 if there is no such process, or only what is left of one (a zombie).
uint64_t process_start(pid_t pid);

}  // namespace friday
