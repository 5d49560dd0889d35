// The fewest members of a list that still have a property which the whole list has, so that none of those that are left
// can be taken away by itself without losing it. First the members are found from the last one on, each as the end of
// the shortest beginning of the list that has the property together with those found already: k of n take some k log n
// tests, if more members never lose the property. Then delta debugging (Zeller and Hildebrandt, "Simplifying and
// isolating failure-inducing input", IEEE TSE 2002, algorithm ddmin), which does not rely on that, looks at what is
// left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace friday {

enum class Tried { has, lacks, stop };

// `test(members)` says whether a part of the list, in its order, has the property; `stop` ends the search, and the
// fewest members so far are returned. It is not asked of the whole list, which must have it.
template <typename Member, typename Test>
class Minimiser {
 public:
  Minimiser(std::vector<Member> all, Test& test) : fewest_(std::move(all)), test_(test) {}

  std::vector<Member> run() {
    if (find_from_the_end()) take_away();
    return std::move(fewest_);
  }

 private:
  // Whether they have the property; then they are the fewest so far.
  bool has(std::vector<Member> some) {
    const Tried tried = test_(some);
    stopped_ = tried == Tried::stop;
    if (tried == Tried::has) fewest_ = std::move(some);
    return tried == Tried::has;
  }

  // False: stopped.
  bool find_from_the_end() {
    size_t found = 0;  // members at the end of fewest_
    while (found < fewest_.size()) {
      const std::vector<Member> all = fewest_;
      const auto beginning = [&](size_t length) {
        std::vector<Member> some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
        some.insert(some.end(), all.end() - static_cast<std::ptrdiff_t>(found), all.end());
        return some;
      };
      size_t low = 0, high = all.size() - found;  // a beginning of `high` has the property
      if (has(beginning(0))) return true;
      while (!stopped_ && high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        (has(beginning(middle)) ? high : low) = middle;
      }
      if (stopped_) return false;
      found++;
    }
    return true;
  }

  void take_away() {
    for (size_t parts = 2; !stopped_ && fewest_.size() > 1;) {
      parts = std::min(parts, fewest_.size());
      const size_t before = fewest_.size();
      // First each part by itself, then all but one. Of two parts these are the same.
      for (size_t i = 0; i < parts && fewest_.size() == before && !stopped_; i++) has(part(parts, i, true));
      const bool alone = fewest_.size() < before;
      for (size_t i = 0; parts > 2 && i < parts && fewest_.size() == before && !stopped_; i++)
        has(part(parts, i, false));
      if (alone) parts = 2;
      else if (fewest_.size() < before) parts = std::max<size_t>(parts - 1, 2);
      else if (parts >= before) return;
      else parts *= 2;
    }
  }

  std::vector<Member> part(size_t parts, size_t i, bool alone) const {
    const auto begin = fewest_.begin() + static_cast<std::ptrdiff_t>(fewest_.size() * i / parts);
    const auto end = fewest_.begin() + static_cast<std::ptrdiff_t>(fewest_.size() * (i + 1) / parts);
    if (alone) return {begin, end};
    std::vector<Member> rest(fewest_.begin(), begin);
    rest.insert(rest.end(), end, fewest_.end());
    return rest;
  }

  std::vector<Member> fewest_;
  Test& test_;
  bool stopped_ = false;
};

template <typename Member, typename Test>
std::vector<Member> minimise(std::vector<Member> all, Test&& test) {
  return Minimiser<Member, std::remove_reference_t<Test>>(std::move(all), test).run();
}

}  // namespace friday
