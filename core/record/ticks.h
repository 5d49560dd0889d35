// The time-stamp counter as a group's clock: whether it can be that on this machine, and how fast it counts.
#pragma once

#include <cstdint>

namespace friday {

// Its ticks are the group's clock only where the kernel itself trusts it.
bool tsc_is_the_clock();
// In ticks a second; takes 5 ms.
uint64_t measure_tsc_rate();

}  // namespace friday
