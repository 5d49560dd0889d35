#include "core/study/score.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace friday {
namespace {

// 1 / (kShuffles + 1) is the smallest share that can be shown; with many candidates fewer have to do.
constexpr size_t kShuffles = 499, kLeastShuffles = 199;
constexpr size_t kMostChecks = 300'000'000;  // candidates times shuffles times words of a set

// x ln x, and 0 for 0.
double entropy(size_t x) { return x == 0 ? 0 : static_cast<double>(x) * std::log(static_cast<double>(x)); }

Split split_of(RunSet holds, RunSet could, RunSet failing) {
  Split split;
  split.failing_with = count_common(holds, failing);
  split.passing_with = count_in(holds) - split.failing_with;
  split.failing_without = count_common(could, failing) - split.failing_with;
  split.passing_without = count_in(could) - count_in(holds) - split.failing_without;
  return split;
}

class Shuffled {
 public:
  Shuffled(const Candidates& candidates, size_t runs) : candidates_(candidates) {
    for (size_t i = 0; i <= runs; i++) entropy_.push_back(entropy(i));
    for (const Candidate& each : candidates.list)
      sizes_.push_back({count_in(candidates.sets[each.holds]), count_in(candidates.sets[each.could])});
  }

  double largest(RunSet failing) const {
    double largest = 0;
    for (size_t i = 0; i < candidates_.list.size(); i++) {
      const Candidate& each = candidates_.list[i];
      const size_t a = count_common(candidates_.sets[each.holds], failing);
      const size_t c = count_common(candidates_.sets[each.could], failing) - a;
      const size_t with = sizes_[i].first, without = sizes_[i].second - with;
      if (a * without <= c * with) continue;
      const double g =
          2 * (entropy_[a] + entropy_[with - a] + entropy_[c] + entropy_[without - c] - entropy_[with] -
               entropy_[without] - entropy_[a + c] - entropy_[with + without - a - c] + entropy_[with + without]);
      largest = std::max(largest, g);
    }
    return largest;
  }

 private:
  const Candidates& candidates_;
  std::vector<double> entropy_;
  std::vector<std::pair<size_t, size_t>> sizes_;  // of holds and could
};

}  // namespace

double g_of(const Split& split) {
  const auto& [a, b, c, d] = split;
  if (a * (c + d) <= c * (a + b)) return 0;
  return 2 * (entropy(a) + entropy(b) + entropy(c) + entropy(d) - entropy(a + b) - entropy(c + d) - entropy(a + c) -
              entropy(b + d) + entropy(a + b + c + d));
}

Outcome::Outcome(const std::vector<bool>& failed)
    : sets(1, failed.size()), runs(failed.size()), failures(static_cast<size_t>(std::ranges::count(failed, true))) {
  for (size_t run = 0; run < failed.size(); run++)
    if (failed[run]) sets.add(0, run);
}

std::vector<Scored> scored(const Candidates& candidates, const Outcome& outcome) {
  std::vector<Scored> list;
  for (size_t i = 0; i < candidates.list.size(); i++) {
    const Candidate& each = candidates.list[i];
    const Split split = split_of(candidates.sets[each.holds], candidates.sets[each.could], outcome.sets[0]);
    if (const double g = g_of(split); g > 0) list.push_back({i, split, g});
  }
  std::ranges::stable_sort(list, std::greater{}, &Scored::g);
  return list;
}

std::vector<double> by_chance(const Candidates& candidates, const Outcome& outcome) {
  const size_t checks = std::max<size_t>(1, candidates.list.size() * candidates.sets.words());
  const size_t shuffles = std::clamp(kMostChecks / checks, kLeastShuffles, kShuffles);
  const Shuffled shuffled(candidates, outcome.runs);
  std::mt19937_64 random(1);
  std::vector<size_t> order(outcome.runs);
  for (size_t run = 0; run < order.size(); run++) order[run] = run;
  std::vector<double> largest;
  for (size_t i = 0; i < shuffles; i++) {
    RunSets failing(1, outcome.runs);
    for (size_t run = 0; run < outcome.failures; run++) {  // the first ones of a shuffle
      std::swap(order[run], order[run + random() % (order.size() - run)]);
      failing.add(0, order[run]);
    }
    largest.push_back(shuffled.largest(failing[0]));
  }
  std::ranges::sort(largest);
  return largest;
}

double p_of(double g, const std::vector<double>& chance) {
  constexpr double kRounding = 1e-9;
  const auto reached = chance.end() - std::ranges::lower_bound(chance, g - kRounding);
  return (1 + static_cast<double>(reached)) / (1 + static_cast<double>(chance.size()));
}

}  // namespace friday
