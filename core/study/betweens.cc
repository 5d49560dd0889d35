#include "core/study/betweens.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace friday {
namespace {

constexpr size_t kMostSegments = 20'000, kMostCells = size_t{1} << 26;  // of pairs of sends, times names of receives
// Bits in which is noted what was seen between which two sends of a run, so that it counts once only.
constexpr size_t kMostSeen = size_t{1} << 27;

}  // namespace

Betweens::Betweens(const Naming& naming, bool alike)
    : naming_(naming), alike_(alike), by_name_(naming), by_general_(naming) {
  for (const NamedRun& run : naming.runs)
    for (size_t event = 0; event < run.size(); event++) {
      if (run.talk->events[event].sent) continue;
      for (uint32_t name : run.names_of(event)) by_name_.number_name(name);
      if (alike) by_general_.number_name(run.general[event]);
    }
  by_name_.limit_segments();
  by_general_.limit_segments();
}

void Betweens::Table::number_name(uint32_t name) {
  if (number[name] != kNone) return;
  number[name] = static_cast<uint32_t>(numbered.size());
  numbered.push_back(name);
}

void Betweens::Table::limit_segments() {
  most = std::clamp<size_t>(kMostCells / std::max<size_t>(1, numbered.size()), 10, kMostSegments);
}

std::vector<Betweens::Segment*> Betweens::Table::segments_of(std::span<const uint32_t> first,
                                                             std::span<const uint32_t> last) {
  std::vector<Segment*> of;
  for (uint32_t x : first)
    for (uint32_t z : last) {
      if (segments.size() >= most && !segments.contains({x, z})) {
        too_many = true;
        continue;
      }
      const auto [known, is_new] = segments.try_emplace({x, z});
      if (is_new) known->second.set = sets.append(std::vector<uint64_t>(sets.words()));
      of.push_back(&known->second);
    }
  return of;
}

void Betweens::Table::add(std::span<Segment* const> to, std::span<const uint32_t> names, size_t run) {
  for (uint32_t name : names)
    for (Segment* segment : to) {
      if (segment->inside.empty()) segment->inside.resize(numbered.size(), kNone);
      uint32_t& set = segment->inside[number[name]];
      if (set == kNone) set = static_cast<uint32_t>(sets.append(std::vector<uint64_t>(sets.words())));
      sets.add(set, run);
    }
}

// Numbers the lists of names that the events of a run have. Equal lists have the same number in all runs.
void Betweens::number_lists(const NamedRun& run) {
  lists_of_.clear();
  std::vector<uint32_t> list;
  const auto bytes_of = [](const std::vector<uint32_t>& of) {
    return std::string_view(reinterpret_cast<const char*>(of.data()), of.size() * sizeof(uint32_t));
  };
  for (size_t event = 0; event < run.size(); event++) {
    const auto names = run.names_of(event);
    list.assign(names.begin(), names.end());
    list.push_back(run.general[event]);
    auto known = list_of_.find(bytes_of(list));
    if (known == list_of_.end()) {
      const auto number = static_cast<uint32_t>(lists_.size());
      known = list_of_.emplace(bytes_of(lists_.emplace_back(list)), number).first;
    }
    lists_of_.push_back(known->second);
  }
}

bool Betweens::see(size_t run) {
  const NamedRun& named = naming_.runs[run];
  const auto receives = receives_of(named);
  number_lists(named);
  seen_.clear();
  receives_up_to_.assign(named.size(), 0);
  for (const Receive& receive : receives) receives_up_to_[receive.event] = 1;
  for (size_t event = 1; event < named.size(); event++) receives_up_to_[event] += receives_up_to_[event - 1];
  size_t looks = 0;
  for_each_segment(named, [&](size_t first, size_t last) {
    if (looks <= most_looks(named)) looks += segment(run, first, last, receives);
  });
  return looks <= most_looks(named);
}

// The segments of two events, which are noted as those of the run.
Betweens::Ends& Betweens::ends(size_t run, size_t first, size_t last) {
  const uint32_t x = lists_of_[first], z = lists_of_[last];
  const uint32_t number = ends_of_(uint64_t{x} << 32 | z);
  if (number == ends_.size()) {
    Ends& made = ends_.emplace_back();
    made.by_name = by_name_.segments_of(names(x), names(z));
    if (alike_) made.by_general = by_general_.segments_of(general(x), general(z));
  }
  Ends& ends = ends_[number];
  if (std::exchange(ends.run, run) != run) {
    for (Segment* each : ends.by_name) by_name_.sets.add(each->set, run);
    for (Segment* each : ends.by_general) by_general_.sets.add(each->set, run);
    ends.seen = seen_.size();
    if (seen_.size() + lists_.size() <= kMostSeen) seen_.resize(seen_.size() + lists_.size());
  }
  return ends;
}

// Whether these names are noted as standing between these sends of the run; they are then.
bool Betweens::was_seen(const Ends& ends, uint32_t list) {
  if (ends.seen + list >= seen_.size()) return false;  // there was no room for these
  const bool before = seen_[ends.seen + list];
  seen_[ends.seen + list] = true;
  return before;
}

// Returns how many events were looked at.
size_t Betweens::segment(size_t run, size_t first, size_t last, std::span<const Receive> receives) {
  const NamedRun& named = naming_.runs[run];
  if (named.shape_of(first) == NamedRun::kNameless || named.shape_of(last) == NamedRun::kNameless) return 0;
  const Ends& between = ends(run, first, last);
  if (named.tainted[last]) return 0;
  const auto begin = [&](size_t event) { return receives_up_to_[event]; };
  return for_each_between(named, first, last, receives, begin, [&](const Receive& receive) {
    const uint32_t list = lists_of_[receive.event];
    if (was_seen(between, list)) return true;
    by_name_.add(between.by_name, names(list), run);
    if (alike_) by_general_.add(between.by_general, general(list), run);
    return true;
  });
}

std::vector<std::string> Betweens::left_out() const {
  std::vector<std::string> out;
  for (const Table* table : {&by_name_, &by_general_})
    if (table->too_many)
      out.push_back(fmt::format("what comes between two messages, for all but {} kinds of these", table->most));
  return out;
}

}  // namespace friday
