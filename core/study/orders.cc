#include "core/study/orders.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/base/counted.h"

namespace friday {
namespace {

// A role whose receives have more names is looked at by shapes only, and then by as many of these as this.
constexpr size_t kMostNames = 3000;
constexpr size_t kMostPairWords = size_t{1} << 26;  // of sets of runs, for the pairs of a role
// Words that so many shapes of one role have in common are no matter of two messages.
constexpr size_t kMostShapesOfWord = 64;
constexpr size_t kMostSegments = 20'000, kMostCells = size_t{1} << 26;  // of pairs of sends, times names of receives
constexpr size_t kMostCandidates = 2'000'000;
// How often the events of a run are looked at for `between` and `intrusion`. Where ten processes talk it is some ten
// times; with hundreds of them, or with messages that overtake each other, it would be quadratic.
constexpr size_t kMostLooks = 200;
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
  // Goes on with the candidates that there are.
  explicit Grouping(Candidates& out) : out_(out) {
    for (size_t i = 0; i < out.list.size(); i++)
      by_hash_[hash_of(out.sets[out.list[i].holds], out.sets[out.list[i].could])].push_back(i);
  }

  // `holds` are runs of `could`.
  void add(const Order& order, RunSet holds, RunSet could) {
    const size_t held = count_in(holds);
    if (held == 0 || held == count_in(could)) return;
    if (Candidate* candidate = find(holds, could)) {
      candidate->alike++;
      const auto of_form = std::ranges::count(candidate->orders, order.form, &Order::form);
      if (static_cast<size_t>(of_form) < kMostAlike) candidate->orders.push_back(order);
    }
  }

  // Adds what was found of other forms of order.
  void add(const Candidates& others) {
    for (const Candidate& each : others.list)
      if (Candidate* candidate = find(others.sets[each.holds], others.sets[each.could])) {
        candidate->alike += each.alike;
        candidate->orders.insert(candidate->orders.end(), each.orders.begin(), each.orders.end());
      }
    out_.left_out.insert(out_.left_out.end(), others.left_out.begin(), others.left_out.end());
  }

 private:
  static uint64_t hash_of(RunSet holds, RunSet could) {
    return XXH3_64bits_withSeed(holds.data(), holds.size_bytes(), XXH3_64bits(could.data(), could.size_bytes()));
  }

  // The candidate with these sets, which is made if it is new; null if there are too many.
  Candidate* find(RunSet holds, RunSet could) {
    auto& same = by_hash_[hash_of(holds, could)];
    const auto found = std::ranges::find_if(same, [&](size_t each) {
      const Candidate& candidate = out_.list[each];
      return std::ranges::equal(out_.sets[candidate.holds], holds) &&
             std::ranges::equal(out_.sets[candidate.could], could);
    });
    if (found != same.end()) return &out_.list[*found];
    if (out_.list.size() == kMostCandidates) {
      if (!std::exchange(is_full_, true))
        out_.left_out.push_back(fmt::format("all orders but the first {} that these runs tell apart", kMostCandidates));
      return nullptr;
    }
    same.push_back(out_.list.size());
    const size_t first = out_.sets.append(holds);
    return &out_.list.emplace_back(Candidate{first, out_.sets.append(could), {}, 0});
  }

  Candidates& out_;
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash_;
  bool is_full_ = false;
};

// The names of a role's receives, which get consecutive numbers.
struct RoleNames {
  std::vector<uint32_t> names;
  std::vector<uint32_t> number;  // by name; kNone
};

bool has_word(const NamedRun& run, size_t event, uint64_t word) {
  return std::ranges::find(run.words_of(event), word) != run.words_of(event).end();
}

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

struct SendsOfWord {
  uint32_t node, partner;
  uint64_t word;
  bool operator==(const SendsOfWord&) const = default;
};
struct HashOfSends {
  size_t operator()(const SendsOfWord& key) const { return XXH3_64bits(&key, sizeof key); }
};

// The same of sends that have a word in common, and are consecutive among those with it: f(word, first, last).
template <typename F>
void for_each_segment_of_word(const NamedRun& run, F f) {
  std::unordered_map<SendsOfWord, size_t, HashOfSends> sends;  // the last one
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

// Whether a receive is not of the node that sends at `first`, and of nothing that this node has sent.
bool comes_from_elsewhere(const NamedRun& run, size_t first, size_t event) {
  const TalkEvent &send = run.talk->events[first], &inside = run.talk->events[event];
  const uint32_t sender = run.other_end[event];
  return inside.node != send.node && (sender == NamedRun::kNowhere || run.talk->events[sender].node != send.node);
}

// Calls f(event) for each untainted receive of something from elsewhere between two messages, until it returns false.
// `receives`: those to look at, in order. Returns how many it has looked at.
template <typename F>
size_t for_each_between(const NamedRun& run, size_t first, size_t last, std::span<const uint32_t> receives, F f) {
  const auto& events = run.talk->events;
  const uint32_t from = run.other_end[first], to = run.other_end[last];
  const bool one_receiver =
      from != NamedRun::kNowhere && to != NamedRun::kNowhere && events[from].node == events[to].node;
  size_t looked = 0;
  const auto look = [&](size_t low, size_t high, bool there) {
    for (auto at = std::ranges::upper_bound(receives, low); at != receives.end() && *at < high; ++at, ++looked) {
      const bool is_there = one_receiver && events[*at].node == events[from].node;
      if (is_there == there && !run.tainted[*at] && comes_from_elsewhere(run, first, *at) && !f(*at)) return false;
    }
    return true;
  };
  if (look(first, last, false) && one_receiver) look(from, to, true);
  return looked;
}

std::vector<uint32_t> receives_of(const NamedRun& run) {
  std::vector<uint32_t> receives;
  for (uint32_t event = 0; event < run.size(); event++)
    if (!run.talk->events[event].sent) receives.push_back(event);
  return receives;
}

// The receives with a word, in a run.
struct WithWord {
  std::vector<uint32_t> events;  // in order
  std::vector<uint32_t> kinds;   // one event of each shape and node
};

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
        for (uint32_t name : *names)
          if (name != NamedRun::kNameless) present_.add(name, run);
    for (const NamedRun& run : naming.runs) {
      auto& by_role = receives_.emplace_back();
      for (uint32_t event : receives_of(run)) by_role[identity(run.shape_of(event)).role].push_back(event);
    }
    for (uint32_t name = 0; name < naming.identities.size(); name++)
      if (!identity(name).sent) received_[identity(name).role].push_back(name);
  }

  // Orders of two messages, and of three about the same word.
  Candidates of_two_and_of_words() {
    for (const auto& [role, all] : received_) {
      if (is_general(role)) continue;  // its receives are those of several processes
      pairs(role, names_of_role(role, all));
      matters(role);
    }
    intrusions(false, [](const NamedRun& run, size_t event) { return run.shape_of(event); });
    if (are_some_alike()) intrusions(true, [](const NamedRun& run, size_t event) { return run.general[event]; });
    return std::move(out_);
  }

  // Orders of three messages.
  Candidates of_three() {
    betweens(false, [](const NamedRun& run, size_t event) { return run.names_of(event); });
    if (are_some_alike())
      betweens(true, [](const NamedRun& run, size_t event) { return std::span(run.general).subspan(event, 1); });
    return std::move(out_);
  }

  Candidates contents() {
    RunSets all(1, naming_.runs.size());
    for (size_t run = 0; run < naming_.runs.size(); run++) all.add(0, run);
    for (uint32_t name = 0; name < naming_.identities.size(); name++) {
      grouping_.add({Order::Form::content, {name}}, present_[name], all[0]);
      std::vector<uint64_t> absent(all[0].begin(), all[0].end());
      for (size_t i = 0; i < absent.size(); i++) absent[i] &= ~present_[name][i];
      grouping_.add({Order::Form::absence, {name}}, absent, all[0]);
    }
    return std::move(out_);
  }

 private:
  const Identity& identity(uint32_t name) const { return naming_.identities[name]; }

  RoleNames names_of_role(uint32_t role, const std::vector<uint32_t>& all) {
    RoleNames out{all, std::vector<uint32_t>(naming_.identities.size(), kNone)};
    const size_t most =
        std::min(kMostNames, static_cast<size_t>(std::sqrt(kMostPairWords / std::max<size_t>(1, inside_.words()))));
    if (out.names.size() > most) {
      out_.left_out.push_back(fmt::format("values of single fields in the {} to {}",
                                          counted(out.names.size(), "different message"), naming_.roles[role]));
      std::erase_if(out.names, [&](uint32_t name) { return identity(name).level != Identity::Level::shape; });
    }
    if (out.names.size() > most) {
      out_.left_out.push_back(fmt::format("of the {} to {} all but the {} most frequent",
                                          counted(out.names.size(), "shape"), naming_.roles[role], most));
      std::ranges::stable_sort(out.names, std::greater{}, [&](uint32_t name) { return count_in(present_[name]); });
      out.names.resize(most);
    }
    for (uint32_t i = 0; i < out.names.size(); i++) out.number[out.names[i]] = i;
    return out;
  }

  bool are_some_alike() const { return naming_.first_general < naming_.roles.size(); }
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

  std::span<const uint32_t> receives(size_t run, uint32_t role) const {
    const auto found = receives_[run].find(role);
    return found == receives_[run].end() ? std::span<const uint32_t>() : std::span(found->second);
  }

  void pairs(uint32_t role, const RoleNames& names) {
    const size_t count = names.names.size();
    RunSets holds(count * count, naming_.runs.size());
    for (size_t run = 0; run < naming_.runs.size(); run++) {
      std::vector<Extent> extents(count);
      std::vector<uint32_t> seen;
      const NamedRun& named = naming_.runs[run];
      for (uint32_t event : receives(run, role)) {
        if (named.tainted[event]) continue;
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
    for (size_t x = 0; x < count; x++)
      for (size_t y = 0; y < count; y++)
        if (is_race(names.names[x], names.names[y]))
          grouping_.add({Order::Form::pair, {names.names[x], names.names[y]}}, holds[x * count + y],
                        common(present_[names.names[x]], present_[names.names[y]]));
  }

  RunSet common(RunSet one, RunSet other) {
    common_.resize(one.size());
    for (size_t i = 0; i < one.size(); i++) common_[i] = one[i] & other[i];
    return common_;
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
      for (uint32_t event : receives(run, role)) {
        const uint32_t shape = named.shape_of(event);
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
        if (shapes.size() > kMostShapesOfWord) {
          say_of_common_words();
          continue;
        }
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

  void say_of_common_words() {
    if (!std::exchange(said_common_words_, true))
      out_.left_out.push_back(
          fmt::format("words that {} or more shapes of messages have in common", kMostShapesOfWord));
  }

  static size_t most_looks(const NamedRun& run) {
    constexpr size_t kSmallRun = 10'000;
    return kMostLooks * std::max(run.size(), kSmallRun);
  }

  // Whether so many looks at a run's events were too many, so that not all was seen.
  bool is_too_much(const NamedRun& run, size_t looks, const char* what) {
    if (looks <= most_looks(run)) return false;
    out_.left_out.push_back(
        fmt::format("{}, since in run {} too many messages lie between two that follow each other", what, run.number));
    return true;
  }

  // Two consecutive sends of a node to one partner, by their names, and what is received elsewhere meanwhile.
  struct Segment {
    size_t set = 0;                  // of runs that have one
    std::vector<uint32_t> inside{};  // by the number of a receive's name: the set of runs, kNone
  };

  // `names(run, event)` are the names by which events are compared; `general`: they stand for several alike where they
  // can.
  void betweens(bool general, const auto& names) {
    segments_.clear();
    inside_ = RunSets(0, naming_.runs.size());
    number_names(names);
    most_segments_ = std::clamp<size_t>(kMostCells / std::max<size_t>(1, numbered_.size()), 10, kMostSegments);
    too_many_ = false;
    for (size_t run = 0; run < naming_.runs.size(); run++) {
      size_t looks = 0;
      const auto receives = receives_of(naming_.runs[run]);
      for_each_segment(naming_.runs[run], [&](size_t first, size_t last) {
        if (looks <= most_looks(naming_.runs[run])) looks += segment(run, first, last, receives, names);
      });
      if (is_too_much(naming_.runs[run], looks, "what comes between two messages")) return;
    }
    if (too_many_)
      out_.left_out.push_back(
          fmt::format("what comes between two messages, for all but {} kinds of these", most_segments_));
    for (const auto& [ends, segment] : segments_)
      for (uint32_t number = 0; number < segment.inside.size(); number++) {
        const uint32_t set = segment.inside[number], name = numbered_[number];
        if (set == kNone || (general && !says_more({ends.first, name, ends.second}))) continue;
        grouping_.add({Order::Form::between, {ends.first, name, ends.second}}, inside_[set],
                      common(inside_[segment.set], present_[name]));
      }
  }

  // Numbers the names of all receives.
  void number_names(const auto& names) {
    number_.assign(naming_.identities.size(), kNone);
    numbered_.clear();
    for (const NamedRun& run : naming_.runs)
      for (uint32_t event : receives_of(run))
        for (uint32_t name : names(run, event))
          if (number_[name] == kNone) {
            number_[name] = static_cast<uint32_t>(numbered_.size());
            numbered_.push_back(name);
          }
  }

  // Returns how many events were looked at.
  size_t segment(size_t run, size_t first, size_t last, std::span<const uint32_t> receives, const auto& names) {
    const NamedRun& named = naming_.runs[run];
    std::vector<Segment*> here;
    if (named.shape_of(first) == NamedRun::kNameless || named.shape_of(last) == NamedRun::kNameless) return 0;
    for (uint32_t x : names(named, first))
      for (uint32_t z : names(named, last)) {
        if (segments_.size() >= most_segments_ && !segments_.contains({x, z})) {
          too_many_ = true;
          continue;
        }
        const auto [known, is_new] = segments_.try_emplace({x, z});
        if (is_new) known->second.set = inside_.append(none_);
        inside_.add(known->second.set, run);
        here.push_back(&known->second);
      }
    if (named.tainted[last]) return 0;
    return for_each_between(named, first, last, receives, [&](size_t event) {
      for (uint32_t name : names(named, event))
        for (Segment* segment : here) {
          if (segment->inside.empty()) segment->inside.resize(numbered_.size(), kNone);
          uint32_t& set = segment->inside[number_[name]];
          if (set == kNone) set = static_cast<uint32_t>(inside_.append(none_));
          inside_.add(set, run);
        }
      return true;
    });
  }

  static std::unordered_map<uint64_t, WithWord> received_with_words(const NamedRun& run) {
    std::unordered_map<uint64_t, WithWord> out;
    for (uint32_t event : receives_of(run))
      for (uint64_t word : run.words_of(event)) {
        WithWord& with = out[word];
        with.events.push_back(event);
        const bool known = std::ranges::any_of(with.kinds, [&](uint32_t each) {
          return run.shape_of(each) == run.shape_of(event) &&
                 run.talk->events[each].node == run.talk->events[event].node;
        });
        if (!known && with.kinds.size() < kMostShapesOfWord) with.kinds.push_back(event);
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
      size_t looks = 0;
      for_each_segment_of_word(named, [&](uint64_t word, size_t first, size_t last) {
        const auto with = received.find(word);
        if (with == received.end() || looks > most_looks(named)) return;
        if (with->second.kinds.size() >= kMostShapesOfWord) return say_of_common_words();
        const auto set_of = [&](size_t event) {
          const auto [known, is_new] =
              number.try_emplace({shape(named, first), shape(named, event), shape(named, last)}, holds.count());
          if (is_new) holds.append(none_), could.append(none_);
          return known->second;
        };
        for (uint32_t event : with->second.kinds)
          if (comes_from_elsewhere(named, first, event)) could.add(set_of(event), run);
        looks += with->second.kinds.size();
        if (named.tainted[last]) return;
        looks += for_each_between(named, first, last, with->second.events, [&](size_t event) {
          holds.add(set_of(event), run);
          return true;
        });
      });
      if (is_too_much(named, looks, "what comes between two messages about the same word")) return;
    }
    for (const auto& [shapes, set] : number)
      if (!general || says_more({shapes[0], shapes[1], shapes[2]}))
        grouping_.add({Order::Form::intrusion, shapes}, holds[set], could[set]);
  }

  const Naming& naming_;
  Candidates out_;
  Grouping grouping_;
  RunSets present_;                                                            // by name: the runs that have it
  std::vector<std::unordered_map<uint32_t, std::vector<uint32_t>>> receives_;  // by run and role
  std::map<uint32_t, std::vector<uint32_t>> received_;                         // by role: the names of its receives
  std::map<std::pair<uint32_t, uint32_t>, Segment> segments_;
  RunSets inside_;
  std::vector<uint32_t> number_, numbered_;  // of names of receives, and the other way round
  size_t most_segments_ = kMostSegments;
  const std::vector<uint64_t> none_;  // the empty set of runs
  std::vector<uint64_t> common_;
  bool too_many_ = false, said_common_words_ = false;
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
    if (shape != order.names[0] && shape != order.names[1]) continue;
    for (uint64_t word : run.words_of(event)) {
      if (shape == order.names[1])
        if (const auto found = first.find(word); found != first.end()) return {found->second, event};
      if (shape == order.names[0]) first.try_emplace(word, event);
    }
  }
  return {};
}

std::vector<size_t> events_of_segment(const NamedRun& run, const Order& order) {
  const auto& [x, y, z] = order.names;
  const bool of_word = order.form == Order::Form::intrusion;
  std::vector<uint32_t> receives;  // of y
  for (uint32_t event : receives_of(run))
    if (of_word ? is_shape(run, event, y) : has_name(run, event, y)) receives.push_back(event);
  std::vector<size_t> found;
  const auto look = [&](size_t first, size_t last, std::optional<uint64_t> word) {
    const auto is = [&](size_t event, uint32_t name) {
      return of_word ? is_shape(run, event, name) : has_name(run, event, name);
    };
    if (!found.empty() || run.tainted[last] || !is(first, x) || !is(last, z)) return;
    for_each_between(run, first, last, receives, [&](size_t event) {
      if (!word || has_word(run, event, *word)) found = {first, event, last};
      return found.empty();
    });
  };
  if (of_word)
    for_each_segment_of_word(run, [&](uint64_t word, size_t first, size_t last) { look(first, last, word); });
  else for_each_segment(run, [&](size_t first, size_t last) { look(first, last, std::nullopt); });
  return found;
}

// The events that have the order's names there, in the order of Order::names.
std::vector<size_t> events_of(const NamedRun& run, const Order& order) {
  switch (order.form) {
    case Order::Form::pair: return events_of_pair(run, order);
    case Order::Form::matter: return events_of_matter(run, order);
    case Order::Form::between:
    case Order::Form::intrusion: return events_of_segment(run, order);
    case Order::Form::absence: return {};
    case Order::Form::content: break;
  }
  for (size_t event = 0; event < run.size(); event++)
    if (has_name(run, event, order.names[0])) return {event};
  return {};
}

}  // namespace

Candidates orders_of(const Naming& naming) {
  auto of_three = std::async(std::launch::async, [&] { return Orders(naming).of_three(); });
  Candidates out = Orders(naming).of_two_and_of_words();
  Grouping(out).add(of_three.get());
  return out;
}
Candidates contents_of(const Naming& naming) { return Orders(naming).contents(); }

std::optional<size_t> completed_at(const NamedRun& run, const Order& order) {
  const auto events = events_of(run, order);
  return events.empty() ? std::nullopt : std::optional(std::ranges::max(events));
}

}  // namespace friday
