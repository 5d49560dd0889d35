// A set of ranges against a set of its members.
#include "core/base/address_ranges.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

namespace friday {
namespace {

TEST(AddressRanges, AreWhatTheirMembersAre) {
  constexpr uint64_t kMembers = 64;
  std::mt19937 random(7);
  const auto any = [&](uint64_t most) { return std::uniform_int_distribution<uint64_t>(0, most)(random); };
  for (int trial = 0; trial < 300; trial++) {
    AddressRanges ranges;
    std::bitset<kMembers> members;
    for (int change = 0; change < 60; change++) {
      const uint64_t low = any(kMembers), high = low + any(kMembers - low);
      const bool adds = any(1);
      adds ? ranges.add(low, high) : ranges.remove(low, high);
      for (uint64_t each = low; each < high; each++) members[each] = adds;
      ASSERT_EQ(ranges.empty(), members.none());
      for (uint64_t from = 0; from < kMembers; from++) {
        bool any_member = false;
        for (uint64_t to = from; to <= kMembers; to++) {
          ASSERT_EQ(ranges.overlaps(from, to), any_member) << from << " to " << to;
          if (to < kMembers) any_member |= members[to];
        }
      }
    }
  }
}

}  // namespace
}  // namespace friday
