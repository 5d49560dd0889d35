// Which checkpoint is given up first. Distances are those that the events of the group have between them.
#include "core/history/thinning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace friday {
namespace {

using Events = std::vector<uint64_t>;

// Gives one up, and returns how many events there were at it.
uint64_t give_up(Events& kept, uint64_t here) {
  const auto which = kept.begin() + static_cast<long>(least_missed(kept, here));
  const uint64_t events = *which;
  kept.erase(which);
  return events;
}

// What is left of checkpoints that are made on a way of `steps` steps, if there may be `most` of them at a time.
Events keep_on_the_way(uint64_t steps, uint64_t length, size_t most) {
  Events kept;
  for (uint64_t step = 0; step <= steps; step++) {
    kept.push_back(step * length);
    while (kept.size() > most) give_up(kept, step * length);
  }
  return kept;
}

TEST(Thinning, NeitherTheFirstNorTheLastIsGivenUp) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 1000; round++) {
    Events kept(3 + random() % 20);
    for (uint64_t& events : kept) events = random() % 1000;
    std::ranges::sort(kept);
    const size_t which = least_missed(kept, random() % 1200);
    EXPECT_GT(which, 0u);
    EXPECT_LT(which, kept.size() - 1);
  }
}

TEST(Thinning, OfEquallyDistantOnesTheOneBetweenTheClosestGoes) {
  constexpr uint64_t kFarAway = 1'000'000'000;
  Events kept{0, 100, 101, 102, 200};
  EXPECT_EQ(give_up(kept, kFarAway), 101u);
  EXPECT_EQ(give_up(kept, kFarAway), 102u);  // from 100 to 200 it is less than from 0 to 102
}

TEST(Thinning, OfEquallySpacedOnesTheFarthestGoes) {
  const Events kept{0, 100, 200, 300, 400, 500, 600, 700, 800};
  EXPECT_EQ(least_missed(kept, 800), 1u);
  EXPECT_EQ(least_missed(kept, 10'000), 1u);
  EXPECT_EQ(least_missed(kept, 0), 7u) << "the group has gone back to the start";
}

TEST(Thinning, ItGoesOnFromBothEndsToWhereTheGroupStands) {
  Events kept{0, 100, 200, 300, 400, 500, 600, 700, 800};
  Events given_up;
  while (kept.size() > 2) given_up.push_back(give_up(kept, 400));
  EXPECT_EQ(given_up, (Events{100, 700, 200, 600, 300, 500, 400}));
  EXPECT_EQ(kept, (Events{0, 800}));
}

TEST(Thinning, TheSecondOneOfAPlaceGoesFirst) {
  EXPECT_EQ(least_missed(Events{0, 300, 300, 300, 400}, 400), 2u);
  EXPECT_EQ(least_missed(Events{0, 300, 300, 300, 400}, 0), 2u);
}

// Whoever goes back by N events runs at most so much again.
TEST(Thinning, BehindEachPlaceThereIsOneWithinItsDistance) {
  constexpr uint64_t kSteps = 3000, kLength = 100;
  const Events kept = keep_on_the_way(kSteps, kLength, 40);
  ASSERT_EQ(kept.size(), 40u);
  for (size_t i = 0; i + 1 < kept.size(); i++) {
    const uint64_t distance = std::max(kept.back() - kept[i + 1], kLength);
    EXPECT_LE(kept[i + 1] - kept[i], distance) << "between " << kept[i] << " and " << kept[i + 1];
  }
}

// A second way over the past does not thin what lies near to where the group stands then.
TEST(Thinning, WhereTheGroupHasGoneBackToTheyAreDense) {
  Events kept = keep_on_the_way(100, 100, 101);
  constexpr uint64_t kHere = 5000;
  while (kept.size() > 20) give_up(kept, kHere);
  EXPECT_EQ(kept.front(), 0u);
  EXPECT_EQ(kept.back(), 10'000u);
  for (const uint64_t near : {kHere - 100, kHere, kHere + 100})
    EXPECT_TRUE(std::ranges::binary_search(kept, near)) << near;
}

}  // namespace
}  // namespace friday
