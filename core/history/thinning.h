// Which checkpoint goes first when there are too many of them. A pure function of numbers, so that it can be tested for
// thousands of checkpoints without a process.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace friday {

// The index of the checkpoint that is missed least: the one whose neighbours are closest together for its distance from
// where the group stands, the first one if there are several. Never the first or the last of all. `events`: of each
// checkpoint the number of events that all nodes together had completed, rising; there are at least three. `here`: the
// number that they have completed now.
inline size_t least_missed(std::span<const uint64_t> events, uint64_t here) {
  auto at = [&](size_t i) { return static_cast<double>(events[i]); };
  size_t least = 1;
  double gap = HUGE_VAL;
  for (size_t i = 1; i + 1 < events.size(); i++) {
    const double missed = (at(i + 1) - at(i - 1)) / (std::abs(static_cast<double>(here) - at(i)) + 1);
    if (missed < gap) gap = missed, least = i;
  }
  return least;
}

}  // namespace friday
