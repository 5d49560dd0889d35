#include "core/record/ticks.h"

#include <x86intrin.h>

#include <ctime>

#include "core/base/files.h"

namespace friday {

bool tsc_is_the_clock() {
  auto source = read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return source && source->starts_with("tsc");
}

uint64_t measure_tsc_rate() {
  auto mono = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
  };
  const int64_t start = mono();
  const uint64_t first = __rdtsc();
  while (mono() - start < 5000000) {}
  const uint64_t ticks = __rdtsc() - first;
  return static_cast<uint64_t>(static_cast<double>(ticks) * 1e9 / static_cast<double>(mono() - start));
}

}  // namespace friday
