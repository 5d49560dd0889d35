// Minimum cuts of random networks against all partitions of their nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "core/cut/flow.h"

namespace friday::cut {
namespace {

struct SmallNetwork {
  uint32_t nodes = 0;
  std::vector<Arc> arcs;
  std::vector<uint32_t> sources, sinks;
};

SmallNetwork random_network(std::mt19937& random) {
  SmallNetwork network{.nodes = 2 + static_cast<uint32_t>(random() % 9), .arcs = {}, .sources = {0}, .sinks = {1}};
  if (random() % 3 == 0 && network.nodes > 4) network.sources.push_back(2), network.sinks.push_back(3);
  const size_t arcs = random() % (4 * network.nodes);
  for (size_t i = 0; i < arcs; i++) {
    const auto from = static_cast<uint32_t>(random() % network.nodes),
               to = static_cast<uint32_t>(random() % network.nodes);
    network.arcs.push_back({from, to, random() % 6 == 0 ? kInfinite : static_cast<int64_t>(1 + random() % 20)});
  }
  return network;
}

bool holds(const std::vector<uint32_t>& nodes, uint32_t inside, bool are_inside) {
  for (const uint32_t each : nodes)
    if (((inside >> each & 1) != 0) != are_inside) return false;
  return true;
}

// The least capacity, or kInfinite; and the fewest nodes inside of such a cut.
std::pair<int64_t, int> least(const SmallNetwork& network) {
  std::pair<int64_t, int> best{kInfinite, 0};
  for (uint32_t inside = 0; inside < 1u << network.nodes; inside++) {
    if (!holds(network.sources, inside, false) || !holds(network.sinks, inside, true)) continue;
    int64_t sum = 0;
    for (const Arc& arc : network.arcs)
      if ((inside >> arc.from & 1) == 0 && (inside >> arc.to & 1) != 0) sum = std::min(kInfinite, sum + arc.capacity);
    if (sum < kInfinite) best = std::min(best, std::pair(sum, std::popcount(inside)));
  }
  return best;
}

TEST(MinimumCut, IsTheLeastOfAllPartitions) {
  for (uint32_t seed = 0; seed < 4000; seed++) {
    std::mt19937 random(seed);
    const SmallNetwork network = random_network(random);
    const auto [capacity, count] = least(network);
    const auto cut = minimum_cut(network.nodes, network.arcs, network.sources, network.sinks);
    ASSERT_EQ(cut.has_value(), capacity < kInfinite) << "seed " << seed;
    if (!cut) continue;
    ASSERT_EQ(cut->capacity, capacity) << "seed " << seed;
    ASSERT_EQ(std::ranges::count(cut->inside, true), count) << "seed " << seed;
    int64_t sum = 0;
    for (const Arc& arc : network.arcs)
      if (!cut->inside[arc.from] && cut->inside[arc.to]) sum += arc.capacity;
    ASSERT_EQ(sum, capacity) << "seed " << seed;
  }
}

TEST(MinimumCut, ALongPathNeedsNoRecursion) {
  constexpr uint32_t kNodes = 1'000'000;
  std::vector<Arc> arcs;
  for (uint32_t i = 0; i + 1 < kNodes; i++) arcs.push_back({i, i + 1, i == kNodes / 2 ? 1 : 2});
  const uint32_t source = 0, sink = kNodes - 1;
  const auto cut = minimum_cut(kNodes, arcs, std::span(&source, 1), std::span(&sink, 1));
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->capacity, 1);
  EXPECT_FALSE(cut->inside[kNodes / 2]);
  EXPECT_TRUE(cut->inside[kNodes / 2 + 1]);
}

TEST(MinimumCut, RefusesWhatIsNoNetwork) {
  const uint32_t zero = 0, nine = 9;
  const std::vector<Arc> far = {{0, 9, 1}}, nothing = {{0, 1, 0}},
                         large = {{0, 1, kInfinite - 1}, {0, 1, kInfinite - 1}};
  for (const auto& arcs : {far, nothing, large}) EXPECT_FALSE(minimum_cut(2, arcs, std::span(&zero, 1), {}));
  EXPECT_FALSE(minimum_cut(2, {}, std::span(&nine, 1), {}));
}

}  // namespace
}  // namespace friday::cut
