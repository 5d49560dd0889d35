// A set of addresses, or of other numbers, kept as ranges that do not touch. Adding, removing and asking take the time
// of a search and of the ranges that are merged or cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace friday {

class AddressRanges {
 public:
  // Each of [low, high), low <= high.
  void add(uint64_t low, uint64_t high) { change(low, high, true); }
  void remove(uint64_t low, uint64_t high) { change(low, high, false); }
  bool overlaps(uint64_t low, uint64_t high) const {
    const auto after = ranges_.lower_bound(high);
    return low < high && after != ranges_.begin() && std::prev(after)->second > low;
  }
  bool empty() const { return ranges_.empty(); }
  void clear() { ranges_.clear(); }

 private:
  void change(uint64_t low, uint64_t high, bool add) {
    if (low >= high) return;
    auto at = ranges_.upper_bound(low);
    if (at != ranges_.begin() && std::prev(at)->second >= low) --at;
    while (at != ranges_.end() && at->first <= high) {
      const auto [first, last] = *at;
      at = ranges_.erase(at);
      if (add) {
        low = std::min(low, first), high = std::max(high, last);
        continue;
      }
      if (first < low) ranges_.emplace(first, std::min(low, last));
      if (last > high) ranges_.emplace(std::max(high, first), last);
      if (last > high) break;
    }
    if (add) ranges_.emplace(low, high);
  }

  std::map<uint64_t, uint64_t> ranges_;  // from low to high
};

}  // namespace friday
