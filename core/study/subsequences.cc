#include "core/study/subsequences.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_set>

namespace friday {
namespace {

// An event by its shape and occurrence, so that no schedule has a label twice.
using Label = uint32_t;
using Schedule = std::vector<Label>;

struct Labels {
  std::map<std::pair<uint32_t, size_t>, Label> numbers;
  std::vector<std::pair<uint32_t, size_t>> meanings;

  Schedule of(const NamedRun& run) {
    std::map<uint32_t, size_t> seen;
    Schedule schedule;
    for (size_t event = 0; event < run.size(); event++) {
      if (run.shape_of(event) == NamedRun::kNameless) continue;
      const std::pair meaning(run.shape_of(event), ++seen[run.shape_of(event)]);
      const auto [known, is_new] = numbers.try_emplace(meaning, meanings.size());
      if (is_new) meanings.push_back(meaning);
      schedule.push_back(known->second);
    }
    return schedule;
  }
};

// Since no label comes twice, this is the longest subsequence of `one` whose places in `other` rise.
Schedule common(const Schedule& one, const Schedule& other, size_t labels) {
  constexpr uint32_t kNowhere = ~uint32_t{0};
  std::vector<uint32_t> place(labels, kNowhere);
  for (uint32_t i = 0; i < other.size(); i++) place[other[i]] = i;
  std::vector<size_t> ends;  // by length - 1: the event of `one` at which such a subsequence ends lowest
  std::vector<std::optional<size_t>> before(one.size());
  for (size_t i = 0; i < one.size(); i++) {
    if (place[one[i]] == kNowhere) continue;
    const auto at = std::ranges::lower_bound(ends, place[one[i]], {}, [&](size_t event) { return place[one[event]]; });
    if (at != ends.begin()) before[i] = *std::prev(at);
    if (at == ends.end()) ends.push_back(i);
    else *at = i;
  }
  Schedule found;
  for (std::optional<size_t> event = ends.empty() ? std::nullopt : std::optional(ends.back()); event;
       event = before[*event])
    found.push_back(one[*event]);
  std::ranges::reverse(found);
  return found;
}

double weight_of(const Split& split) {
  const double with = static_cast<double>(split.failing_with + split.passing_with);
  return std::sqrt(2 * std::abs(0.5 - static_cast<double>(split.passing_with) / with));
}

}  // namespace

std::vector<Anomaly> anomalies_of(const Naming& naming) {
  Labels labels;
  std::vector<Schedule> schedules;
  for (const NamedRun& run : naming.runs) schedules.push_back(labels.of(run));
  std::optional<Schedule> kinds[2];  // what is common to the passing runs, and to the failing ones
  for (size_t run = 0; run < schedules.size(); run++) {
    auto& kind = kinds[naming.runs[run].failed];
    kind = kind ? common(*kind, schedules[run], labels.meanings.size()) : schedules[run];
  }
  std::vector<size_t> failing(labels.meanings.size()), passing(labels.meanings.size());
  size_t failures = 0;
  for (size_t run = 0; run < schedules.size(); run++) {
    const bool failed = naming.runs[run].failed;
    failures += failed;
    for (Label label : schedules[run]) ++(failed ? failing : passing)[label];
  }
  std::vector<Anomaly> out;
  for (bool of_failing : {true, false}) {
    if (!kinds[of_failing]) continue;
    std::unordered_set<Label> others;
    if (kinds[!of_failing]) others.insert(kinds[!of_failing]->begin(), kinds[!of_failing]->end());
    std::vector<Anomaly> found;
    for (Label label : *kinds[of_failing]) {
      if (others.contains(label)) continue;
      const auto& [name, occurrence] = labels.meanings[label];
      const Split split{failing[label], passing[label], failures - failing[label],
                        schedules.size() - failures - passing[label]};
      found.push_back({name, occurrence, of_failing, split, weight_of(split)});
    }
    for (size_t i = 0; i < found.size(); i++)
      found[i].weight *= 1 - static_cast<double>(i) / static_cast<double>(found.size());
    out.insert(out.end(), found.begin(), found.end());
  }
  std::ranges::stable_sort(out, std::greater{}, &Anomaly::weight);
  return out;
}

}  // namespace friday
