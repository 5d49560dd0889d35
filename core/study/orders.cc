#include "core/study/orders.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace friday {
namespace {

// A role whose receives have more names is looked at by shapes only, and then by as many of these as it has.
constexpr size_t kMostNames = 3000;
// Words that so many shapes of one role have in common are no matter of two messages.
constexpr size_t kMostShapesOfWord = 64;
constexpr size_t kMostSegments = 20'000;
constexpr uint32_t kNone = ~uint32_t{0};

// Where the untainted events with a name stand in a run: the first and the last of them.
struct Extent {
  uint32_t first = kNone, last = 0;
  void see(size_t event) {
    if (first == kNone) first = static_cast<uint32_t>(event);
    last = static_cast<uint32_t>(event);
  }
  bool before(const Extent& other) const { return first != kNone && other.first != kNone && first < other.last; }
};

// Puts orders that cannot be told apart together.
class Grouping {
 public:
  explicit Grouping(Candidates& out) : out_(out) {}

  // `holds` are runs of `could`.
  void add(const Order& order, RunSet holds, RunSet could) {
    const size_t held = count_in(holds);
    if (held == 0 || held == count_in(could)) return;
    const uint64_t hash =
        XXH3_64bits_withSeed(holds.data(), holds.size_bytes(), XXH3_64bits(could.data(), could.size_bytes()));
    auto& same = by_hash_[hash];
    const auto found = std::ranges::find_if(same, [&](size_t each) {
      const Candidate& candidate = out_.list[each];
      return std::ranges::equal(out_.sets[candidate.holds], holds) &&
             std::ranges::equal(out_.sets[candidate.could], could);
    });
    if (found == same.end()) {
      same.push_back(out_.list.size());
      const size_t first = out_.sets.append(holds);
      out_.list.push_back({first, out_.sets.append(could), {order}, 1});
      return;
    }
    Candidate& candidate = out_.list[*found];
    if (candidate.alike++ < kMostAlike) candidate.orders.push_back(order);
  }

 private:
  Candidates& out_;
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash_;
};

// The names of a role's receives, which get consecutive numbers.
struct RoleNames {
  std::vector<uint32_t> names;
  std::vector<uint32_t> number;  // by name; kNone
};

// Calls f(first, last) for each two consecutive sends of a node to one partner.
template <typename F>
void for_each_segment(const NamedRun& run, F f) {
  std::map<std::pair<uint32_t, uint32_t>, size_t> sends;  // (node, partner) -> its last send
  for (size_t event = 0; event < run.size(); event++) {
    const TalkEvent& send = run.talk->events[event];
    if (!send.sent || send.partner == TalkEvent::kOutside) continue;
    const auto [place, is_new] = sends.try_emplace({send.node, send.partner}, event);
    const size_t before = std::exchange(place->second, event);
    if (!is_new) f(before, event);
  }
}

// The same of sends that have a word in common, and are consecutive among those with it: f(word, first, last).
template <typename F>
void for_each_segment_of_word(const NamedRun& run, F f) {
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, size_t> sends;  // (node, partner, word) -> its last send
  for (size_t event = 0; event < run.size(); event++) {
    const TalkEvent& send = run.talk->events[event];
    if (!send.sent || send.partner == TalkEvent::kOutside) continue;
    for (uint64_t word : run.words_of(event)) {
      const auto [place, is_new] = sends.try_emplace({send.node, send.partner, word}, event);
      const size_t before = std::exchange(place->second, event);
      if (!is_new && before != event) f(word, before, event);
    }
  }
}

bool has_word(const NamedRun& run, size_t event, uint64_t word) {
  return std::ranges::find(run.words_of(event), word) != run.words_of(event).end();
}

// Whether a receive is not of the node that sends at `first`, and of nothing that this node has sent.
bool comes_from_elsewhere(const NamedRun& run, size_t first, size_t event) {
  const TalkEvent &send = run.talk->events[first], &inside = run.talk->events[event];
  return !inside.sent && inside.node != send.node && inside.partner != send.role;
}

// Calls f(event) for each untainted receive of something from elsewhere between two messages, until it returns false.
template <typename F>
void for_each_between(const NamedRun& run, size_t first, size_t last, F f) {
  const auto& events = run.talk->events;
  const uint32_t from = run.received_at[first], to = run.received_at[last];
  const bool one_receiver =
      from != NamedRun::kNowhere && to != NamedRun::kNowhere && events[from].node == events[to].node;
  const auto is_there = [&](size_t event) { return one_receiver && events[event].node == events[from].node; };
  const auto counts = [&](size_t event) { return !run.tainted[event] && comes_from_elsewhere(run, first, event); };
  for (size_t event = first + 1; event < last; event++)
    if (!is_there(event) && counts(event) && !f(event)) return;
  for (size_t event = size_t{from} + 1; one_receiver && event < to; event++)
    if (is_there(event) && counts(event) && !f(event)) return;
}

class Orders {
 public:
  explicit Orders(const Naming& naming)
      : naming_(naming),
        out_(naming.runs.size()),
        grouping_(out_),
        present_(naming.identities.size(), naming.runs.size()),
        inside_(0, naming.runs.size()),
        none_(inside_.words()) {
    for (size_t run = 0; run < naming.runs.size(); run++)
      for (const auto* names : {&naming.runs[run].names, &naming.runs[run].general})
        for (uint32_t name : *names) present_.add(name, run);
  }

  Candidates orders() {
    for (uint32_t role = 0; role < naming_.roles.size(); role++) {
      const RoleNames names = received_by(role);
      pairs(names);
      matters(role);
    }
    betweens(false, [](const NamedRun& run, size_t event) { return run.names_of(event); });
    intrusions(false, [](const NamedRun& run, size_t event) { return run.shape_of(event); });
    if (are_some_alike()) {
      betweens(true, [](const NamedRun& run, size_t event) { return std::span(run.general).subspan(event, 1); });
      intrusions(true, [](const NamedRun& run, size_t event) { return run.general[event]; });
    }
    return std::move(out_);
  }

  Candidates contents() {
    RunSets all(1, naming_.runs.size());
    for (size_t run = 0; run < naming_.runs.size(); run++) all.add(0, run);
    for (uint32_t name = 0; name < naming_.identities.size(); name++)
      grouping_.add({Order::Form::content, {name}}, present_[name], all[0]);
    return std::move(out_);
  }

 private:
  const Identity& identity(uint32_t name) const { return naming_.identities[name]; }

  RoleNames received_by(uint32_t role) {
    RoleNames out{{}, std::vector<uint32_t>(naming_.identities.size(), kNone)};
    const auto gather = [&](bool only_shapes) {
      out.names.clear();
      for (uint32_t name = 0; name < naming_.identities.size(); name++)
        if (identity(name).role == role && !identity(name).sent &&
            (!only_shapes || identity(name).level == Identity::Level::shape))
          out.names.push_back(name);
    };
    gather(false);
    if (out.names.size() > kMostNames) {
      out_.left_out.push_back(
          fmt::format("{} receives {} different messages: values of single fields were not compared there",
                      naming_.roles[role], out.names.size()));
      gather(true);
    }
    if (out.names.size() > kMostNames) {
      out_.left_out.push_back(fmt::format("of the {} shapes of messages to {} the {} most frequent were compared",
                                          out.names.size(), naming_.roles[role], kMostNames));
      std::ranges::stable_sort(out.names, std::greater{}, [&](uint32_t name) { return count_in(present_[name]); });
      out.names.resize(kMostNames);
    }
    for (uint32_t i = 0; i < out.names.size(); i++) out.number[out.names[i]] = i;
    return out;
  }

  bool is_general(uint32_t role) const { return role != TalkEvent::kOutside && naming_.is_general(role); }
  // Whether the order of two receives of a role is one between senders.
  bool is_race(uint32_t x, uint32_t y) const {
    const uint32_t one = identity(x).partner, other = identity(y).partner;
    if (one == other || one == TalkEvent::kOutside || other == TalkEvent::kOutside) return one != other;
    return !(is_general(one) || is_general(other)) || naming_.general[one] != naming_.general[other];
  }
  // Whether names stand for several alike, where events are compared by such names.
  bool says_more(std::initializer_list<uint32_t> names) const {
    return std::ranges::any_of(
        names, [&](uint32_t name) { return is_general(identity(name).role) || is_general(identity(name).partner); });
  }

  void pairs(const RoleNames& names) {
    const size_t count = names.names.size();
    RunSets holds(count * count, naming_.runs.size());
    for (size_t run = 0; run < naming_.runs.size(); run++) {
      std::vector<Extent> extents(count);
      std::vector<uint32_t> seen;
      const NamedRun& named = naming_.runs[run];
      for (size_t event = 0; event < named.size(); event++) {
        if (named.tainted[event] || named.talk->events[event].sent) continue;
        for (uint32_t name : named.names_of(event)) {
          const uint32_t number = names.number[name];
          if (number == kNone) continue;
          if (extents[number].first == kNone) seen.push_back(number);
          extents[number].see(event);
        }
      }
      for (uint32_t x : seen)
        for (uint32_t y : seen)
          if (extents[x].before(extents[y]) && is_race(names.names[x], names.names[y])) holds.add(x * count + y, run);
    }
    RunSets could(1, naming_.runs.size());
    for (size_t x = 0; x < count; x++)
      for (size_t y = 0; y < count; y++) {
        if (!is_race(names.names[x], names.names[y])) continue;
        const RunSets both = common(present_[names.names[x]], present_[names.names[y]]);
        grouping_.add({Order::Form::pair, {names.names[x], names.names[y]}}, holds[x * count + y], both[0]);
      }
  }

  RunSets common(RunSet one, RunSet other) const {
    RunSets both(0, naming_.runs.size());
    std::vector<uint64_t> words(one.size());
    for (size_t i = 0; i < words.size(); i++) words[i] = one[i] & other[i];
    both.append(words);
    return both;
  }

  // Pairs of shapes that have a word in common. Each word is looked at for itself.
  void matters(uint32_t role) {
    struct Seen {
      Extent untainted;
      uint32_t shape = 0;
    };
    std::map<std::pair<uint32_t, uint32_t>, size_t> number;  // of a pair of shapes: its set
    RunSets holds(0, naming_.runs.size()), could(0, naming_.runs.size());
    for (size_t run = 0; run < naming_.runs.size(); run++) {
      std::unordered_map<uint64_t, std::vector<Seen>> by_word;
      const NamedRun& named = naming_.runs[run];
      for (size_t event = 0; event < named.size(); event++) {
        const uint32_t shape = named.shape_of(event);
        if (named.talk->events[event].sent || identity(shape).role != role) continue;
        for (uint64_t word : named.words_of(event)) {
          auto& shapes = by_word[word];
          auto same = std::ranges::find(shapes, shape, &Seen::shape);
          if (same == shapes.end()) {
            if (shapes.size() > kMostShapesOfWord) continue;
            same = shapes.insert(shapes.end(), Seen{{}, shape});
          }
          if (!named.tainted[event]) same->untainted.see(event);
        }
      }
      for (const auto& [word, shapes] : by_word) {
        if (shapes.size() > kMostShapesOfWord) continue;
        for (const Seen& x : shapes)
          for (const Seen& y : shapes) {
            if (!is_race(x.shape, y.shape)) continue;
            const auto [known, is_new] = number.try_emplace({x.shape, y.shape}, holds.count());
            if (is_new) holds.append(none_), could.append(none_);
            could.add(known->second, run);
            if (x.untainted.before(y.untainted)) holds.add(known->second, run);
          }
      }
    }
    for (const auto& [names, set] : number)
      grouping_.add({Order::Form::matter, {names.first, names.second}}, holds[set], could[set]);
  }

  bool are_some_alike() const {
    for (uint32_t role = 0; role < naming_.roles.size(); role++)
      if (naming_.general[role] != role) return true;
    return false;
  }

  // `names(run, event)` are the names by which events are compared; `general`: they stand for several alike where they
  // can.
  void betweens(bool general, const auto& names) {
    segments_.clear();
    for (size_t run = 0; run < naming_.runs.size(); run++)
      for_each_segment(naming_.runs[run], [&](size_t first, size_t last) { segment(run, first, last, names); });
    if (too_many_)
      out_.left_out.push_back(
          fmt::format("of pairs of consecutive sends the first {} kinds were compared", kMostSegments));
    for (const auto& [ends, segment] : segments_)
      for (uint32_t name = 0; name < segment.inside.size(); name++)
        if (const uint32_t set = segment.inside[name];
            set != kNone && (!general || says_more({ends.first, name, ends.second})))
          grouping_.add({Order::Form::between, {ends.first, name, ends.second}}, inside_[set],
                        common(inside_[segment.set], present_[name])[0]);
  }

  // Two consecutive sends of a node to one partner, by their names, and what is received elsewhere meanwhile.
  struct Segment {
    size_t set = 0;                  // of runs that have one
    std::vector<uint32_t> inside{};  // by the name of a receive: the set of runs, kNone
  };

  void segment(size_t run, size_t first, size_t last, const auto& names) {
    const NamedRun& named = naming_.runs[run];
    std::vector<Segment*> here;
    for (uint32_t x : names(named, first))
      for (uint32_t z : names(named, last)) {
        if (segments_.size() >= kMostSegments && !segments_.contains({x, z})) {
          too_many_ = true;
          continue;
        }
        const auto [known, is_new] = segments_.try_emplace({x, z});
        if (is_new) known->second.set = inside_.append(none_);
        inside_.add(known->second.set, run);
        here.push_back(&known->second);
      }
    if (named.tainted[last]) return;
    for_each_between(named, first, last, [&](size_t event) {
      for (uint32_t name : names(named, event))
        for (Segment* segment : here) {
          if (segment->inside.empty()) segment->inside.resize(naming_.identities.size(), kNone);
          uint32_t& set = segment->inside[name];
          if (set == kNone) set = static_cast<uint32_t>(inside_.append(none_));
          inside_.add(set, run);
        }
      return true;
    });
  }

  // The receives with a word, in a run: one event of each shape and node.
  static std::unordered_map<uint64_t, std::vector<size_t>> received_with_words(const NamedRun& run) {
    std::unordered_map<uint64_t, std::vector<size_t>> out;
    for (size_t event = 0; event < run.size(); event++) {
      if (run.talk->events[event].sent) continue;
      for (uint64_t word : run.words_of(event)) {
        auto& kinds = out[word];
        const bool known = std::ranges::any_of(kinds, [&](size_t each) {
          return run.shape_of(each) == run.shape_of(event) &&
                 run.talk->events[each].node == run.talk->events[event].node;
        });
        if (!known && kinds.size() < kMostShapesOfWord) kinds.push_back(event);
      }
    }
    return out;
  }

  // `shape(run, event)` is the name by which events are compared; `general` as above.
  void intrusions(bool general, const auto& shape) {
    std::map<std::array<uint32_t, 3>, size_t> number;  // by shapes: the set of runs
    RunSets holds(0, naming_.runs.size()), could(0, naming_.runs.size());
    for (size_t run = 0; run < naming_.runs.size(); run++) {
      const NamedRun& named = naming_.runs[run];
      const auto received = received_with_words(named);
      for_each_segment_of_word(named, [&](uint64_t word, size_t first, size_t last) {
        const auto with = received.find(word);
        if (with == received.end() || with->second.size() >= kMostShapesOfWord) return;
        const auto set_of = [&](size_t event) {
          const auto [known, is_new] =
              number.try_emplace({shape(named, first), shape(named, event), shape(named, last)}, holds.count());
          if (is_new) holds.append(none_), could.append(none_);
          return known->second;
        };
        for (size_t event : with->second)
          if (comes_from_elsewhere(named, first, event)) could.add(set_of(event), run);
        if (named.tainted[last]) return;
        for_each_between(named, first, last, [&](size_t event) {
          if (has_word(named, event, word)) holds.add(set_of(event), run);
          return true;
        });
      });
    }
    for (const auto& [shapes, set] : number)
      if (!general || says_more({shapes[0], shapes[1], shapes[2]}))
        grouping_.add({Order::Form::intrusion, shapes}, holds[set], could[set]);
  }

  const Naming& naming_;
  Candidates out_;
  Grouping grouping_;
  RunSets present_;  // by name: the runs that have it
  std::map<std::pair<uint32_t, uint32_t>, Segment> segments_;
  RunSets inside_;
  const std::vector<uint64_t> none_;  // the empty set of runs
  bool too_many_ = false;
};

bool has_name(const NamedRun& run, size_t event, uint32_t name) {
  return run.general[event] == name || std::ranges::find(run.names_of(event), name) != run.names_of(event).end();
}

bool is_shape(const NamedRun& run, size_t event, uint32_t name) {
  return run.shape_of(event) == name || run.general[event] == name;
}

std::vector<size_t> events_of_pair(const NamedRun& run, const Order& order) {
  std::optional<size_t> first;
  for (size_t event = 0; event < run.size(); event++) {
    if (run.tainted[event]) continue;
    if (first && has_name(run, event, order.names[1])) return {*first, event};
    if (!first && has_name(run, event, order.names[0])) first = event;
  }
  return {};
}

std::vector<size_t> events_of_matter(const NamedRun& run, const Order& order) {
  std::unordered_map<uint64_t, size_t> first;  // word -> the first event with it
  for (size_t event = 0; event < run.size(); event++) {
    if (run.tainted[event]) continue;
    const uint32_t shape = run.shape_of(event);
    for (uint64_t word : run.words_of(event)) {
      if (shape == order.names[1])
        if (const auto found = first.find(word); found != first.end()) return {found->second, event};
      if (shape == order.names[0]) first.try_emplace(word, event);
    }
  }
  return {};
}

std::vector<size_t> events_of_between(const NamedRun& run, const Order& order) {
  const auto& [x, y, z] = order.names;
  std::vector<size_t> found;
  for_each_segment(run, [&](size_t first, size_t last) {
    if (!found.empty() || run.tainted[last] || !has_name(run, first, x) || !has_name(run, last, z)) return;
    for_each_between(run, first, last, [&](size_t event) {
      if (has_name(run, event, y)) found = {first, event, last};
      return found.empty();
    });
  });
  return found;
}

std::vector<size_t> events_of_intrusion(const NamedRun& run, const Order& order) {
  const auto& [x, y, z] = order.names;
  std::vector<size_t> found;
  for_each_segment_of_word(run, [&](uint64_t word, size_t first, size_t last) {
    if (!found.empty() || run.tainted[last] || !is_shape(run, first, x) || !is_shape(run, last, z)) return;
    for_each_between(run, first, last, [&](size_t event) {
      if (is_shape(run, event, y) && has_word(run, event, word)) found = {first, event, last};
      return found.empty();
    });
  });
  return found;
}

}  // namespace

Candidates orders_of(const Naming& naming) { return Orders(naming).orders(); }
Candidates contents_of(const Naming& naming) { return Orders(naming).contents(); }

std::vector<size_t> events_of(const NamedRun& run, const Order& order) {
  switch (order.form) {
    case Order::Form::pair: return events_of_pair(run, order);
    case Order::Form::matter: return events_of_matter(run, order);
    case Order::Form::between: return events_of_between(run, order);
    case Order::Form::intrusion: return events_of_intrusion(run, order);
    case Order::Form::content: break;
  }
  for (size_t event = 0; event < run.size(); event++)
    if (has_name(run, event, order.names[0])) return {event};
  return {};
}

std::optional<size_t> completed_at(const NamedRun& run, const Order& order) {
  const auto events = events_of(run, order);
  return events.empty() ? std::nullopt : std::optional(events.back());
}

}  // namespace friday
