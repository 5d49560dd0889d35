// Sets of runs, as bits: many of them in one piece of memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace friday {

using RunSet = std::span<const uint64_t>;

class RunSets {
 public:
  RunSets(size_t count, size_t runs) : words_((runs + 63) / 64), bits_(count * words_) {}

  size_t words() const { return words_; }
  size_t count() const { return words_ ? bits_.size() / words_ : 0; }
  void add(size_t set, size_t run) { bits_[set * words_ + run / 64] |= uint64_t{1} << run % 64; }
  RunSet operator[](size_t set) const { return std::span(bits_).subspan(set * words_, words_); }
  // Adds a set, and returns its number.
  size_t append(RunSet set) {
    bits_.insert(bits_.end(), set.begin(), set.end());
    return count() - 1;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

inline bool contains(RunSet set, size_t run) { return (set[run / 64] >> run % 64 & 1) != 0; }
inline size_t count_in(RunSet set) {
  size_t count = 0;
  for (uint64_t word : set) count += static_cast<size_t>(std::popcount(word));
  return count;
}
inline size_t count_common(RunSet one, RunSet other) {
  size_t count = 0;
  for (size_t i = 0; i < one.size(); i++) count += static_cast<size_t>(std::popcount(one[i] & other[i]));
  return count;
}

}  // namespace friday
