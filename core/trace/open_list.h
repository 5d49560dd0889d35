// The numbers of a list whose entries are used up in any order: finds the next one that is left without looking at all
// those that are not (a union-find structure).
#pragma once

#include <cstddef>
#include <vector>

namespace friday {

class OpenList {
 public:
  // The first one at or after `n` that is not closed; the number of entries if there is none.
  size_t next(size_t n) {
    while (next_[n] != n) n = next_[n] = next_[next_[n]];
    return n;
  }
  void close(size_t n) { next_[n] = n + 1; }
  void resize(size_t size) {
    for (size_t n = next_.size(); n <= size; ++n) next_.push_back(n);
  }

 private:
  std::vector<size_t> next_;
};

}  // namespace friday
