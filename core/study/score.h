// How strongly an order goes along with failing, and how often chance alone would look as strong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/study/orders.h"
#include "core/study/run_sets.h"

namespace friday {

// How many runs have all messages of an order, by whether the order holds in them.
struct Split {
  size_t failing_with = 0, passing_with = 0, failing_without = 0, passing_without = 0;
};

// The G statistic of the table (a likelihood ratio: 2 * sum of O * ln(O / E)). 0 unless failing runs have the order
// more often than passing ones.
double g_of(const Split& split);

struct Scored {
  size_t candidate;  // in Candidates::list
  Split split;
  double g;
};

// Which runs failed; the others passed.
struct Outcome {
  explicit Outcome(const std::vector<bool>& failed);
  RunSets sets;  // 0: failing
  size_t runs, failures;
};

// The candidates that go along with failing, the strongest first. Of equal ones the order of the list stays.
std::vector<Scored> scored(const Candidates& candidates, const Outcome& outcome);

// What the strongest of all candidates would have if the same number of failures fell on runs by chance: the largest G
// of each of some hundred shuffles, in rising order. The same answer each time.
std::vector<double> by_chance(const Candidates& candidates, const Outcome& outcome);

// The share of shuffles that reach this G, with the run of the truth counted as one: at least 1 / (shuffles + 1).
double p_of(double g, const std::vector<double>& chance);

}  // namespace friday
