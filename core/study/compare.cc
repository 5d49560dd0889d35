#include "core/study/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "core/study/symptoms.h"

namespace friday {
namespace {

constexpr size_t kLeastOfKind = 3;    // failing runs, and passing runs, that a claim needs
constexpr size_t kMostExamples = 3;   // failing runs, and passing runs, that a finding names
constexpr size_t kMostTimed = 10;     // orders of a form, of those that hold in the same runs, that are timed
constexpr size_t kMostTimedRuns = 5;  // failing runs from which mean_completion() takes the mean
constexpr size_t kMostEqual = 10;     // findings with the same G that are sorted by when they come true

// When an order comes true in failing runs: the mean, over these runs, of the share of the run's events that come
// before its last message; then of the sum of the shares before each of its messages. Of two orders with the same last
// message the second number is smaller for the one whose other messages come earlier: the causes, instead of what they
// lead to.
using When = std::pair<double, double>;
constexpr double kNever = std::numeric_limits<double>::infinity();

When mean_completion(const Naming& naming, const Order& order) {
  When sum{0, 0};
  size_t count = 0;
  for (const NamedRun& run : naming.runs) {
    if (!run.failed || count == kMostTimedRuns) continue;
    const auto events = events_of(run, order);
    if (events.empty()) continue;
    const auto size = static_cast<double>(run.size());
    sum.first += static_cast<double>(std::ranges::max(events)) / size;
    for (const size_t event : events) sum.second += static_cast<double>(event) / size;
    count++;
  }
  const auto runs = static_cast<double>(count);
  return count ? When{sum.first / runs, sum.second / runs} : When{kNever, kNever};
}

class Ranking {
 public:
  Ranking(const Naming& naming, const Candidates& candidates, const Outcome& outcome)
      : naming_(naming), candidates_(candidates), outcome_(outcome), scored_(scored(candidates, outcome)) {
    if (!scored_.empty()) chance_ = by_chance(candidates, outcome);
    has_claim_ = std::ranges::any_of(scored_, [&](const Scored& each) { return is_claim(each); });
  }

  std::vector<Finding> findings(size_t most) const {
    std::vector<Finding> list;
    for (size_t i = 0; i < scored_.size() && list.size() < most;) {
      size_t end = i;  // the end of the findings that are as strong as this one
      while (end < scored_.size() && end - i < kMostEqual && scored_[end].g > scored_[i].g - 1e-9) end++;
      std::vector<std::pair<When, Finding>> equal;
      for (; i < end; i++)
        if (!has_claim_ || is_claim(scored_[i])) equal.push_back(finding(scored_[i]));
      std::ranges::stable_sort(equal, {}, [](const auto& each) { return each.first; });
      for (auto& [when, finding] : equal)
        if (list.size() < most) list.push_back(std::move(finding));
    }
    return list;
  }

  bool has_claim() const { return has_claim_; }
  size_t shuffles() const { return chance_.size(); }

  // The G that an order must reach to be claimed. In few runs no order can have a large G, not even by chance, so the
  // shuffles of these runs say too little of what it takes in more runs. Therefore the bound is at least what the
  // number of candidates demands.
  double bound() const {
    if (chance_.empty()) return 0;
    const auto reached = static_cast<size_t>(kMostP * static_cast<double>(chance_.size() + 1));
    return std::max(chance_[chance_.size() - std::max<size_t>(1, reached)],
                    2 * std::log(static_cast<double>(candidates_.list.size()) / kMostP));
  }

 private:
  bool is_claim(const Scored& scored) const {
    return p_of(scored.g, chance_) <= kMostP &&
           static_cast<double>(scored.split.failing_with) >= kLeastShare * static_cast<double>(outcome_.failures);
  }

  // The finding for a candidate, with when it comes true. Of the orders that these runs cannot tell apart it names the
  // one that comes true first.
  std::pair<When, Finding> finding(const Scored& scored) const {
    const Candidate& candidate = candidates_.list[scored.candidate];
    std::vector<std::pair<When, Order>> timed;
    std::map<Order::Form, size_t> of_form;
    for (const Order& order : candidate.orders)
      timed.emplace_back(of_form[order.form]++ < kMostTimed ? mean_completion(naming_, order) : When{kNever, kNever},
                         order);
    std::ranges::stable_sort(timed, {}, [](const auto& each) { return each.first; });
    Finding out{.order = timed[0].second,
                .alike_count = candidate.alike - 1,
                .split = scored.split,
                .g = scored.g,
                .p = p_of(scored.g, chance_)};
    for (size_t i = 1; i < timed.size(); i++) out.alike.push_back(timed[i].second);
    for (size_t run = 0; run < outcome_.runs; run++) {
      const auto in = [&](size_t set) { return contains(candidates_.sets[set], run); };
      const bool failed = naming_.runs[run].failed;
      if (failed && in(candidate.holds) && out.failing.size() < kMostExamples) out.failing.push_back(run);
      if (!failed && in(candidate.could) && !in(candidate.holds) && out.passing.size() < kMostExamples)
        out.passing.push_back(run);
    }
    return {timed[0].first, std::move(out)};
  }

  const Naming& naming_;
  const Candidates& candidates_;
  const Outcome& outcome_;
  std::vector<Scored> scored_;
  std::vector<double> chance_;
  bool has_claim_ = false;
};

// How many different schedules the runs have. Two runs have the same one if each process has received messages of the
// same shapes in the same order.
size_t count_schedules(const Naming& naming) {
  std::set<std::map<std::string, std::vector<uint32_t>>> schedules;
  for (const NamedRun& run : naming.runs) {
    std::map<uint32_t, std::vector<uint32_t>> received;  // by node
    for (size_t event = 0; event < run.size(); event++)
      if (!run.talk->events[event].sent) received[run.talk->events[event].node].push_back(run.shape_of(event));
    std::map<std::string, std::vector<uint32_t>> schedule;
    for (auto& [node, shapes] : received) {
      std::vector<uint32_t>& all = schedule[naming.roles[naming.identities[shapes[0]].role]];
      all.insert(all.end(), shapes.begin(), shapes.end());
    }
    schedules.insert(std::move(schedule));
  }
  return schedules.size();
}

}  // namespace

Comparison compare(std::span<const StudiedRun> runs, size_t most) {
  Comparison out;
  std::vector<bool> failed;
  for (const StudiedRun& run : runs) failed.push_back(run.failed);
  const Outcome outcome(failed);
  out.runs = outcome.runs;
  out.failures = outcome.failures;
  out.naming = Naming::of(runs);
  out.schedules = count_schedules(out.naming);
  using Verdict = Comparison::Verdict;
  if (outcome.failures == 0 || outcome.failures == outcome.runs) {
    out.verdict = outcome.failures == 0 ? Verdict::all_passed : Verdict::all_failed;
    return out;
  }
  out.symptoms = taint(out.naming);
  const Candidates orders = orders_of(out.naming), contents = contents_of(out.naming);
  out.order_candidates = orders.list.size();
  out.left_out = orders.left_out;
  Ranking by_order(out.naming, orders, outcome), by_content(out.naming, contents, outcome);
  out.orders = by_order.findings(most);
  out.contents = by_content.findings(most);
  out.shuffles = by_order.shuffles();
  if (outcome.failures < kLeastOfKind || outcome.runs - outcome.failures < kLeastOfKind) out.verdict = Verdict::too_few;
  else if (by_order.has_claim()) out.verdict = Verdict::order;
  else if (by_content.has_claim()) out.verdict = Verdict::content;
  // The G of a real difference grows in proportion to the number of runs.
  if (!out.orders.empty() && out.orders[0].p > kMostP) {
    const double needed = static_cast<double>(outcome.runs) * by_order.bound() / out.orders[0].g;
    out.needed_runs = std::max(outcome.runs + 1, static_cast<size_t>(std::ceil(needed)));
  }
  return out;
}

}  // namespace friday
