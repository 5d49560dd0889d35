#include "core/study/symptoms.h"

#include <algorithm>
#include <set>

namespace friday {
namespace {

constexpr double kShare = 0.3;  // of the failing runs must have a symptom
constexpr size_t kLeast = 3;    // failing runs

std::vector<uint32_t> symptoms_of(const Naming& naming) {
  std::vector<size_t> failing(naming.identities.size()), passing(naming.identities.size());
  size_t failures = 0;
  for (const NamedRun& run : naming.runs) {
    failures += run.failed;
    std::set<uint32_t> seen;
    for (size_t event = 0; event < run.size(); event++) seen.insert({run.shape_of(event), run.general[event]});
    seen.erase(NamedRun::kNameless);
    for (uint32_t name : seen) ++(run.failed ? failing : passing)[name];
  }
  const size_t least = std::max(kLeast, static_cast<size_t>(kShare * static_cast<double>(failures) + 0.999));
  std::vector<uint32_t> symptoms;
  for (uint32_t name = 0; name < naming.identities.size(); name++)
    if (passing[name] == 0 && failing[name] >= least) symptoms.push_back(name);
  return symptoms;
}

}  // namespace

std::vector<uint32_t> taint(Naming& naming) {
  const std::vector<uint32_t> symptoms = symptoms_of(naming);
  for (NamedRun& run : naming.runs) {
    if (!run.failed) continue;
    std::set<uint32_t> nodes;     // that have seen one
    std::set<uint64_t> messages;  // that carry its consequences
    for (size_t event = 0; event < run.size(); event++) {
      const TalkEvent& what = run.talk->events[event];
      const bool caused = what.sent ? nodes.contains(what.node) : messages.contains(what.message);
      if (!caused && !std::ranges::binary_search(symptoms, run.shape_of(event)) &&
          !std::ranges::binary_search(symptoms, run.general[event]))
        continue;
      run.tainted[event] = true;
      nodes.insert(what.node);
      if (what.sent) messages.insert(what.message);
    }
  }
  return symptoms;
}

}  // namespace friday
