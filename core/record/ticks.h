// Whether the time-stamp counter can be the group's clock on this machine, and how fast it counts.
#pragma once

#include <cstdint>

namespace friday {

// True only if the kernel itself uses the TSC as its clock source.
bool tsc_is_the_clock();
// In ticks per second. Takes 5 ms.
uint64_t measure_tsc_rate();

}  // namespace friday
