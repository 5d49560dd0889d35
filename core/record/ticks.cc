#include "core/record/ticks.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <ctime>

#include "core/base/files.h"

namespace friday {

bool tsc_is_the_clock() {
  auto source = read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return source && source->starts_with("tsc");
}

bool vdso_reads_the_clock() {
  constexpr int kTimes = 10;  // the quickest counts: an interrupt or another program only makes one slower
  timespec time;
  const auto quickest = [](auto&& read) {
    uint64_t least = UINT64_MAX;
    for (int n = 0; n < kTimes; n++) {
      const uint64_t before = __rdtsc();
      read();
      least = std::min<uint64_t>(least, __rdtsc() - before);
    }
    return least;
  };
  const uint64_t by_libc = quickest([&] { clock_gettime(CLOCK_MONOTONIC, &time); });
  const uint64_t by_kernel = quickest([&] { syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time); });
  return by_libc < by_kernel / 2 + by_kernel / 4;
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
