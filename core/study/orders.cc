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
#include "core/study/betweens.h"
#include "core/study/numbering.h"
#include "core/study/segments.h"

namespace friday {
namespace {

// A role whose receives have more names is looked at by shapes only, and then by as many of these as this.
constexpr size_t kMostNames = 3000;
constexpr size_t kMostPairWords = size_t{1} << 26;  // of sets of runs, for the pairs of a role
// Words that so many shapes of one role have in common are no matter of two messages.
constexpr size_t kMostShapesOfWord = 64;
constexpr size_t kMostCandidates = 2'000'000;
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

// The receives of a run by the words that they have.
class ReceivesOfWords {
 public:
  ReceivesOfWords(const NamedRun& run, const Words& words)
      : run_(run), first_(words.count() + 1), kinds_(words.count()) {
    const auto receives = receives_of(run);
    for (const Receive& receive : receives)
      for (uint32_t word : words.of(receive.event)) first_[word + 1]++;
    for (size_t word = 0; word < words.count(); word++) first_[word + 1] += first_[word];
    receives_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (const Receive& receive : receives)
      for (uint32_t word : words.of(receive.event)) receives_[next[word]++] = receive;
  }

  // In order.
  std::span<const Receive> with(uint32_t word) const {
    return std::span(receives_).subspan(first_[word], first_[word + 1] - first_[word]);
  }

  // One of each shape and node, at most kMostShapesOfWord. They are found when somebody asks for them.
  std::span<const Receive> kinds_of(uint32_t word) {
    auto& [first, count] = kinds_[word];
    if (first == kNone) {
      first = static_cast<uint32_t>(kind_.size());
      for (const Receive& receive : with(word)) {
        if (count == kMostShapesOfWord) break;
        const bool known = std::any_of(kind_.begin() + first, kind_.end(), [&](const Receive& each) {
          return run_.shape_of(each.event) == run_.shape_of(receive.event) && each.node == receive.node;
        });
        if (known) continue;
        kind_.push_back(receive);
        count++;
      }
    }
    return std::span(kind_).subspan(first, count);
  }

 private:
  struct Part {
    uint32_t first = kNone, count = 0;
  };

  const NamedRun& run_;
  std::vector<uint32_t> first_;  // by word, where its receives begin
  std::vector<Receive> receives_;
  std::vector<Part> kinds_;  // by word, which part of kind_
  std::vector<Receive> kind_;
};

// Orders of one form, each by the shapes that it is made of, with the runs in which it holds and could hold.
template <typename Shapes>
struct OfShapes {
  explicit OfShapes(size_t runs) : holds(0, runs), could(0, runs) {}

  // The number of the sets, which are new and empty if the order is.
  size_t operator[](const Shapes& shapes) {
    const auto [known, is_new] = number.try_emplace(shapes, holds.count());
    if (is_new) {
      const std::vector<uint64_t> none(holds.words());
      holds.append(none);
      could.append(none);
    }
    return known->second;
  }

  std::map<Shapes, size_t> number;
  RunSets holds, could;
};

class Orders {
 public:
  explicit Orders(const Naming& naming)
      : naming_(naming),
        out_(naming.runs.size()),
        grouping_(out_),
        present_(naming.identities.size(), naming.runs.size()),
        intrusions_(naming.runs.size()),
        intrusions_of_alike_(naming.runs.size()) {
    for (size_t run = 0; run < naming.runs.size(); run++)
      for (const auto* names : {&naming.runs[run].names, &naming.runs[run].general})
        for (uint32_t name : *names)
          if (name != NamedRun::kNameless) present_.add(name, run);
    for (const NamedRun& run : naming.runs) {
      auto& by_role = receives_.emplace_back();
      for (const Receive& each : receives_of(run))
        by_role[identity(run.shape_of(each.event)).role].push_back(each.event);
    }
    for (uint32_t name = 0; name < naming.identities.size(); name++)
      if (!identity(name).sent) received_[identity(name).role].push_back(name);
  }

  // Orders of two messages, and of three about the same word.
  Candidates of_two_and_of_words() {
    std::map<uint32_t, OfShapes<std::pair<uint32_t, uint32_t>>> matters;  // by role
    for (const auto& [role, all] : received_)
      if (!is_general(role)) matters.try_emplace(role, naming_.runs.size());  // else several processes receive them
    for (size_t run = 0; run < naming_.runs.size(); run++) {
      const Words words(naming_.runs[run]);
      for (auto& [role, found] : matters) matters_in(run, role, words, found);
      intrusions_in(run, words);
    }
    for (const auto& [role, found] : matters) {
      pairs(role, names_of_role(role, received_[role]));
      for (const auto& [names, set] : found.number)
        grouping_.add({Order::Form::matter, {names.first, names.second}}, found.holds[set], found.could[set]);
    }
    if (!too_many_between_) add_intrusions();
    return std::move(out_);
  }

  // Orders of three messages.
  Candidates of_three() {
    Betweens betweens(naming_, are_some_alike());
    for (size_t run = 0; run < naming_.runs.size(); run++)
      if (!betweens.see(run)) {
        say_too_much(naming_.runs[run], "what comes between two messages");
        return std::move(out_);
      }
    std::ranges::copy(betweens.left_out(), std::back_inserter(out_.left_out));
    betweens.for_each([&](const std::array<uint32_t, 3>& names, bool is_general, RunSet holds, RunSet ends) {
      if (!is_general || says_more({names[0], names[1], names[2]}))
        grouping_.add({Order::Form::between, names}, holds, common(ends, present_[names[1]]));
    });
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
        std::min(kMostNames, static_cast<size_t>(std::sqrt(kMostPairWords / std::max<size_t>(1, present_.words()))));
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

  // Pairs of shapes that have a word in common, among what a role receives in a run. Each word is looked at for itself.
  void matters_in(size_t run, uint32_t role, const Words& words, OfShapes<std::pair<uint32_t, uint32_t>>& found) {
    struct Seen {
      Extent untainted;
      uint32_t shape = 0;
      uint32_t next = kNone;  // of the word: another one
    };
    struct OfWord {
      uint32_t first = kNone;
      size_t count = 0;
    };
    std::vector<Seen> seen;
    std::vector<OfWord> of_words;
    Numbering numbering;  // of the words of this role
    const NamedRun& named = naming_.runs[run];
    for (uint32_t event : receives(run, role)) {
      const uint32_t shape = named.shape_of(event);
      for (uint32_t word : words.of(event)) {
        const uint32_t number = numbering(word);
        if (number == of_words.size()) of_words.emplace_back();
        OfWord& of_word = of_words[number];
        uint32_t same = of_word.first;
        while (same != kNone && seen[same].shape != shape) same = seen[same].next;
        if (same == kNone) {
          if (of_word.count > kMostShapesOfWord) continue;
          same = static_cast<uint32_t>(seen.size());
          seen.push_back({{}, shape, std::exchange(of_word.first, same)});
          of_word.count++;
        }
        if (!named.tainted[event]) seen[same].untainted.see(event);
      }
    }
    for (const OfWord& of_word : of_words) {
      if (of_word.count > kMostShapesOfWord) {
        say_of_common_words();
        continue;
      }
      for (uint32_t x = of_word.first; x != kNone; x = seen[x].next)
        for (uint32_t y = of_word.first; y != kNone; y = seen[y].next) {
          if (!is_race(seen[x].shape, seen[y].shape)) continue;
          const size_t set = found[{seen[x].shape, seen[y].shape}];
          found.could.add(set, run);
          if (seen[x].untainted.before(seen[y].untainted)) found.holds.add(set, run);
        }
    }
  }

  void say_of_common_words() {
    if (!std::exchange(said_common_words_, true))
      out_.left_out.push_back(
          fmt::format("words that {} or more shapes of messages have in common", kMostShapesOfWord));
  }

  // Not all was seen, since there were too many events to look at.
  void say_too_much(const NamedRun& run, const char* what) {
    out_.left_out.push_back(
        fmt::format("{}, since in run {} too many messages lie between two that follow each other", what, run.number));
  }

  // Of a run: by shapes, and by the names of these that stand for several alike where some are.
  void intrusions_in(size_t run, const Words& words) {
    if (too_many_between_) return;
    const NamedRun& named = naming_.runs[run];
    ReceivesOfWords received(named, words);
    const bool alike = are_some_alike();
    size_t looks = 0;
    for_each_segment_of_word(named, words, [&](uint32_t word, size_t first, size_t last) {
      const auto with = received.with(word);
      if (with.empty() || looks > most_looks(named)) return;
      const auto kinds = received.kinds_of(word);
      if (kinds.size() >= kMostShapesOfWord) return say_of_common_words();
      const auto add = [&](RunSets OfShapes<std::array<uint32_t, 3>>::*sets, uint32_t event) {
        (intrusions_.*sets).add(intrusions_[{named.shape_of(first), named.shape_of(event), named.shape_of(last)}], run);
        if (!alike) return;
        const std::array general{named.general[first], named.general[event], named.general[last]};
        (intrusions_of_alike_.*sets).add(intrusions_of_alike_[general], run);
      };
      for (const Receive& each : kinds)
        if (comes_from_elsewhere(each, named.talk->events[first].node))
          add(&OfShapes<std::array<uint32_t, 3>>::could, each.event);
      looks += kinds.size();
      if (named.tainted[last]) return;
      looks += for_each_between(named, first, last, with, [&](const Receive& each) {
        add(&OfShapes<std::array<uint32_t, 3>>::holds, each.event);
        return true;
      });
    });
    too_many_between_ = looks > most_looks(named);
    if (too_many_between_) say_too_much(named, "what comes between two messages about the same word");
  }

  void add_intrusions() {
    for (const auto& [shapes, set] : intrusions_.number)
      grouping_.add({Order::Form::intrusion, shapes}, intrusions_.holds[set], intrusions_.could[set]);
    const auto& [number, holds, could] = intrusions_of_alike_;
    for (const auto& [shapes, set] : number)
      if (says_more({shapes[0], shapes[1], shapes[2]}))
        grouping_.add({Order::Form::intrusion, shapes}, holds[set], could[set]);
  }

  const Naming& naming_;
  Candidates out_;
  Grouping grouping_;
  RunSets present_;                                                            // by name: the runs that have it
  std::vector<std::unordered_map<uint32_t, std::vector<uint32_t>>> receives_;  // by run and role
  std::map<uint32_t, std::vector<uint32_t>> received_;                         // by role: the names of its receives
  std::vector<uint64_t> common_;
  OfShapes<std::array<uint32_t, 3>> intrusions_, intrusions_of_alike_;
  bool said_common_words_ = false;
  bool too_many_between_ = false;  // of events between two messages about the same word
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
  std::vector<Receive> receives = receives_of(run);
  std::erase_if(receives, [&](const Receive& each) {
    return !(of_word ? is_shape(run, each.event, y) : has_name(run, each.event, y));
  });
  std::vector<size_t> found;
  const auto look = [&](size_t first, size_t last, auto has_word) {
    const auto is = [&](size_t event, uint32_t name) {
      return of_word ? is_shape(run, event, name) : has_name(run, event, name);
    };
    if (!found.empty() || run.tainted[last] || !is(first, x) || !is(last, z)) return;
    for_each_between(run, first, last, receives, [&](const Receive& each) {
      if (has_word(each.event)) found = {first, each.event, last};
      return found.empty();
    });
  };
  if (of_word) {
    const Words words(run);
    for_each_segment_of_word(run, words, [&](uint32_t word, size_t first, size_t last) {
      look(first, last, [&](size_t event) { return words.has(event, word); });
    });
  } else {
    for_each_segment(run, [&](size_t first, size_t last) { look(first, last, [](size_t) { return true; }); });
  }
  return found;
}

}  // namespace

Candidates orders_of(const Naming& naming) {
  auto of_three = std::async(std::launch::async, [&] { return Orders(naming).of_three(); });
  Candidates out = Orders(naming).of_two_and_of_words();
  Grouping(out).add(of_three.get());
  return out;
}
Candidates contents_of(const Naming& naming) { return Orders(naming).contents(); }

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

}  // namespace friday
