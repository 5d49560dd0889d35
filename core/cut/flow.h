// Minimum cuts of networks: Dinic's algorithm ("Algorithm for solution of a problem of maximum flow in a network with
// power estimation", 1970) on compact arrays, without recursion. A network with 351,000 nodes and 34 million arcs takes
// 32 bytes an arc. Knows nothing of programs. Stateless; any thread may call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"

namespace friday::cut {

// No cut goes through an arc of this capacity. Finite capacities must be positive, and their sum below it.
inline constexpr int64_t kInfinite = int64_t{1} << 61;

struct Arc {
  uint32_t from = 0, to = 0;
  int64_t capacity = 0;
};

struct MinimumCut {
  int64_t capacity = 0;  // of all arcs from outside to inside, which is the largest flow
  // By node: whether it is on the side of the sinks. Of all minimum cuts it is the one with the fewest nodes there.
  std::vector<bool> inside;
  uint32_t phases = 0;  // of Dinic's algorithm
};

// Fails with unsupported if a source reaches a sink along infinite arcs only, and with usage if a number is out of
// range.
Result<MinimumCut> minimum_cut(uint32_t nodes, std::span<const Arc> arcs, std::span<const uint32_t> sources,
                               std::span<const uint32_t> sinks);

}  // namespace friday::cut
