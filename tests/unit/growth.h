// How work grows with its input, measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>

namespace friday::testing {

// How many times as long f(8 * n) takes as f(n): some 8 if the work grows with n, 64 if it grows with its square. The
// smallest of several times is taken, of the thread's processor time.
inline double growth(uint64_t n, const std::function<void(uint64_t)>& f) {
  auto seconds = [&](uint64_t size) {
    double least = 1e9;
    for (int run = 0; run < 3; ++run) {
      timespec begin{}, end{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      f(size);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      least = std::min(least, static_cast<double>(end.tv_sec - begin.tv_sec) +
                                  static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9);
    }
    return least;
  };
  const double small = seconds(n);
  return seconds(8 * n) / small;
}
inline constexpr double kMostGrowth = 24;

}  // namespace friday::testing
