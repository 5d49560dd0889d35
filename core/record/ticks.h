// Which clock of this machine can be the group's, how fast it counts, and what it costs to read.
#pragma once

#include <cstdint>

namespace friday {

// True only if the kernel itself uses the TSC as its clock source.
bool tsc_is_the_clock();
// Whether the vdso reads the kernel's clock source by itself, without a system call, as it does the TSC and the clocks
// of most hypervisors. Found out by how long it takes: some 20 us.
bool vdso_reads_the_clock();
// In ticks per second. Takes 5 ms.
uint64_t measure_tsc_rate();

}  // namespace friday
