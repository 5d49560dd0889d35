// The decisions of `friday record --chaos`: the same from the same seed, others from another one, and within bounds.
#include "core/shim/chaos_draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace friday::shim {
namespace {

uint64_t key_of(uint64_t seed, const std::string& name) { return chaos_key_of(seed, name.data(), name.size()); }

// All that is decided about the first calls of two threads.
std::vector<uint64_t> decisions(uint64_t seed, const std::string& name) {
  std::vector<uint64_t> all;
  for (uint32_t thread = 0; thread < 2; thread++)
    for (uint32_t sequence = 0; sequence < 500; sequence++) {
      const ChaosPlace place = {key_of(seed, name), thread, sequence};
      all.insert(all.end(), {chaos_length(place, 4096, 1), chaos_hold(place), static_cast<uint64_t>(chaos_turn(place)),
                             chaos_delay(place), chaos_delays_after(place)});
    }
  return all;
}

TEST(Chaos, SameSeedSameDecisions) { EXPECT_EQ(decisions(7, "server\n"), decisions(7, "server\n")); }

// Written down, so that a seed of an older recording still means the same: a change of these numbers is a change for
// users, who keep seeds.
TEST(Chaos, SeedsKeepTheirMeaning) {
  EXPECT_EQ(chaos_mixed(0), 0xe220a8397b1dcdafu);  // the first number of SplitMix64 with the seed 0
  EXPECT_EQ(chaos_mixed(0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4u);
}

TEST(Chaos, SeedNameAndThreadMakeADifference) {
  EXPECT_NE(decisions(7, "server\n"), decisions(8, "server\n"));
  EXPECT_NE(decisions(7, "server\n"), decisions(7, "client\n"));
  const auto all = decisions(7, "server\n");
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  EXPECT_FALSE(std::equal(all.begin(), half, half));
}

TEST(Chaos, LengthsStayWithinTheirBounds) {
  for (const uint64_t least : {1u, 4096u})
    for (const uint64_t asked : {0u, 1u, 2u, 3u, 48u, 4096u, 4097u, 5000u, 65536u, 1u << 30}) {
      bool cut = false;
      for (uint32_t sequence = 0; sequence < 2000; sequence++) {
        const uint64_t length = chaos_length({key_of(1, "n"), 0, sequence}, asked, least);
        ASSERT_LE(length, asked);
        ASSERT_TRUE(length == asked || length >= least) << length << " of " << asked;
        cut |= length < asked;
      }
      EXPECT_EQ(cut, asked > least && asked > 1) << asked << " bytes, at least " << least;
    }
}

// Programs often offer room for 64 KiB and get a message of some dozens of bytes.
TEST(Chaos, LargeBuffersAreCutToFewBytesToo) {
  int small = 0;
  for (uint32_t sequence = 0; sequence < 2000; sequence++)
    small += chaos_length({key_of(1, "n"), 0, sequence}, 65536, 1) < 64;
  EXPECT_GT(small, 40);
}

TEST(Chaos, WaitsAreBoundedAndNeitherRareNorTheRule) {
  int held = 0, delayed = 0, low = 0, turns = 0;
  constexpr int kCalls = 20000;
  for (uint32_t sequence = 0; sequence < kCalls; sequence++) {
    const ChaosPlace place = {key_of(3, "n"), 1, sequence};
    const uint64_t hold = chaos_hold(place), delay = chaos_delay(place);
    ASSERT_LE(hold, kLongestHold);
    ASSERT_LE(delay, kLongestDelay);
    held += hold != 0, delayed += delay != 0, low += chaos_is_low(place), turns += chaos_turn(place) != Turn::usual;
  }
  for (const int count : {held, delayed, low, turns}) {
    EXPECT_GT(count, kCalls / 50);
    EXPECT_LT(count, kCalls / 2);
  }
}

TEST(Chaos, PrioritiesLastForSomeEventsAndThenChange) {
  int changes = 0;
  for (uint32_t sequence = 1; sequence < 64 * kPriorityEvents; sequence++) {
    const bool now = chaos_is_low({key_of(3, "n"), 1, sequence}),
               before = chaos_is_low({key_of(3, "n"), 1, sequence - 1});
    changes += now != before;
    if (sequence % kPriorityEvents) ASSERT_EQ(now, before);
  }
  EXPECT_GT(changes, 5);
}

TEST(Chaos, NoKeyIsZero) {
  for (uint64_t seed = 0; seed < 1000; seed++) ASSERT_NE(key_of(seed, ""), 0u);
}

}  // namespace
}  // namespace friday::shim
