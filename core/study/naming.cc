#include "core/study/naming.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/study/shape.h"

namespace friday {
namespace {

// The shares of the runs that must have a value before it is a name (measured over four systems of up to 240 events a
// run: with more, causes had no name; with fewer, nearly all names stood in one run).
constexpr double kFieldShare = 0.15, kWholeShare = 0.3;
// A place with more different values is a counter or an id, which tells no two messages of a protocol apart.
constexpr size_t kMostValues = 4096, kMostNames = 24;

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

// How many runs have which value at a place.
class Values {
 public:
  void see(uint64_t value, uint32_t run) {
    if (counts_.size() > kMostValues) return;
    auto& [last, runs] = counts_.try_emplace(value, ~uint32_t{0}, 0).first->second;
    runs += last != run;
    last = run;
  }
  bool varies() const { return counts_.size() > 1; }
  // Call when all runs were seen: the values of that many runs get names, if they are few.
  void choose(double least) {
    if (counts_.size() > kMostValues) return;
    for (const auto& [value, seen] : counts_)
      if (seen.second >= least) named_.insert(value);
    if (named_.size() > kMostNames || !varies()) named_.clear();
  }
  bool has_name(uint64_t value) const { return named_.contains(value); }

 private:
  std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> counts_;  // the run that had it last, and how many had it
  std::set<uint64_t> named_;
};

// The events of one shape between two roles, in one direction.
struct Kind {
  uint32_t identity, half, general;  // names: with the partner, or both ends, as one of several alike
  std::vector<Values> fields;
  Values whole;
};

struct ShapedText {
  Shape shape;
  std::vector<uint64_t> values, words;  // by field
  uint64_t whole = 0;
};

class Namer {
 public:
  explicit Namer(std::span<const StudiedRun> runs) : runs_(runs) {}

  Naming name() {
    find_alike();
    find_lengths();
    for (uint32_t run = 0; run < runs_.size(); run++) see(run);
    const auto count = static_cast<double>(runs_.size());
    for (Kind& kind : kinds_) {
      for (Values& field : kind.fields) field.choose(std::max(2.0, kFieldShare * count));
      kind.whole.choose(std::max(2.0, kWholeShare * count));
    }
    for (uint32_t run = 0; run < runs_.size(); run++) name(run);
    return std::move(naming_);
  }

 private:
  uint32_t role(const std::string& name) {
    const auto [known, is_new] = role_of_.try_emplace(name, naming_.roles.size());
    if (is_new) naming_.roles.push_back(name);
    return known->second;
  }

  // Roles whose names differ in numbers only are alike.
  void find_alike() {
    std::map<std::string, std::vector<uint32_t>> groups;
    for (const StudiedRun& run : runs_)
      for (const std::string& name : run.talk.roles) {
        const size_t known = naming_.roles.size();
        if (const uint32_t number = role(name); number >= known) groups[without_numbers(name)].push_back(number);
      }
    const auto add = [&](uint32_t number, uint32_t general) {
      naming_.general.resize(naming_.roles.size());
      naming_.general[number] = general;
    };
    for (uint32_t number = 0; number < naming_.roles.size(); number++) add(number, number);
    naming_.first_general = static_cast<uint32_t>(naming_.roles.size());
    for (const auto& [masked, group] : groups) {
      if (group.size() < 2) continue;
      const uint32_t general = role(masked);
      add(general, general);
      for (uint32_t number : group) add(number, general);
    }
  }

  uint32_t general(uint32_t role) const { return role == TalkEvent::kOutside ? role : naming_.general[role]; }

  // The shapes of a run's texts, as they are needed. Of a binary message the length is a part, and may be another one
  // where the first bytes are the same.
  class Shapes {
   public:
    explicit Shapes(const Talk& talk) : talk_(talk), known_(talk.texts.size()) {}
    const ShapedText& of(const TalkEvent& event) {
      if (event.text == TalkEvent::kUnknown)
        return unknown_.try_emplace(event.length, shaped("", event.length)).first->second;
      auto& known = known_[event.text];
      for (const auto& [length, shape] : known)
        if (length == event.length || !shape->shape.binary) return *shape;
      known.emplace_back(event.length, std::make_unique<ShapedText>(shaped(talk_.texts[event.text], event.length)));
      return *known.back().second;
    }

   private:
    const Talk& talk_;
    std::vector<std::vector<std::pair<uint64_t, std::unique_ptr<ShapedText>>>> known_;  // by text
    std::map<uint64_t, ShapedText> unknown_;                                            // by length
  };

  static ShapedText shaped(std::string_view text, uint64_t length) {
    ShapedText out{shape_of(text, length), {}, {}, hash_of(text)};
    for (const Field& field : out.shape.fields) {
      out.values.push_back(hash_of(field.value));
      out.words.push_back(field.word.empty() ? 0 : hash_of(field.word));
    }
    return out;
  }

  // The kind of an event, which is made if it is new.
  uint32_t kind_of(const Talk& talk, const TalkEvent& event, const Shape& shape) {
    const uint32_t mine = role(talk.roles[event.role]);
    const uint32_t other = event.partner == TalkEvent::kOutside ? event.partner : role(talk.roles[event.partner]);
    const auto [known, is_new] = kind_of_.try_emplace({mine, other, event.sent, shape.masked}, kinds_.size());
    if (is_new) {
      const bool sent = event.sent != 0;
      Kind made{shape_name(mine, other, sent, shape.masked),
                shape_name(mine, general(other), sent, shape.masked),
                shape_name(general(mine), general(other), sent, shape.masked),
                std::vector<Values>(shape.fields.size()),
                {}};
      kinds_.push_back(std::move(made));
    }
    return known->second;
  }

  uint32_t shape_name(uint32_t role, uint32_t partner, bool sent, const std::string& masked) {
    const auto [known, is_new] = shape_name_.try_emplace({role, partner, sent, masked}, naming_.identities.size());
    if (is_new) naming_.identities.push_back({role, partner, sent, Identity::Level::shape, masked});
    return known->second;
  }

  void see(uint32_t run) {
    const Talk& talk = runs_[run].talk;
    Shapes shapes(talk);
    std::vector<uint32_t>& kinds = kinds_of_.emplace_back();
    for (const TalkEvent& event : std::span(talk.events).first(lengths_[run])) {
      if (is_lost(event)) {
        kinds.push_back(kNoKind);
        continue;
      }
      const ShapedText& text = shapes.of(event);
      kinds.push_back(kind_of(talk, event, text.shape));
      Kind& kind = kinds_[kinds.back()];
      for (size_t field = 0; field < text.values.size(); field++) kind.fields[field].see(text.values[field], run);
      if (text.values.size() > 1) kind.whole.see(text.whole, run);
    }
  }

  uint32_t identity(uint32_t kind, size_t field, uint64_t value, Identity::Level level, const auto& text) {
    const auto [known, is_new] = name_of_.try_emplace({kind, field, value}, naming_.identities.size());
    if (is_new) {
      Identity made = naming_.identities[kinds_[kind].identity];
      made.level = level;
      made.text = text();
      naming_.identities.push_back(std::move(made));
    }
    return known->second;
  }

  void name(uint32_t run) {
    const Talk& talk = runs_[run].talk;
    Shapes shapes(talk);
    NamedRun out{.number = runs_[run].number, .failed = runs_[run].failed, .talk = &talk};
    for (size_t i = 0; i < lengths_[run]; i++) {
      const TalkEvent& event = talk.events[i];
      const uint32_t number = kinds_of_[run][i];
      out.first_name.push_back(static_cast<uint32_t>(out.names.size()));
      out.first_word.push_back(static_cast<uint32_t>(out.words.size()));
      if (number == kNoKind) {
        out.general.push_back(NamedRun::kNameless);
        continue;
      }
      const ShapedText& text = shapes.of(event);
      const Kind& kind = kinds_[number];
      out.names.push_back(kind.identity);
      if (kind.half != kind.identity) out.names.push_back(kind.half);
      out.general.push_back(kind.general);
      for (size_t field = 0; field < text.values.size(); field++) {
        if (kind.fields[field].has_name(text.values[field]))
          out.names.push_back(identity(number, field, text.values[field], Identity::Level::field,
                                       [&] { return with_field(text.shape, field); }));
        if (text.words[field] && kind.fields[field].varies()) out.words.push_back(text.words[field]);
      }
      if (kind.whole.has_name(text.whole))
        out.names.push_back(identity(number, text.values.size(), text.whole, Identity::Level::whole,
                                     [&] { return as_it_was(talk.texts[event.text], event.length); }));
    }
    out.first_name.push_back(static_cast<uint32_t>(out.names.size()));
    out.first_word.push_back(static_cast<uint32_t>(out.words.size()));
    out.length = lengths_[run];
    out.tainted.resize(out.length);
    find_other_ends(out);
    naming_.runs.push_back(std::move(out));
  }

  static void find_other_ends(NamedRun& run) {
    std::unordered_map<uint64_t, uint32_t> sends, receives;  // by message
    const auto& events = run.talk->events;
    for (uint32_t i = 0; i < run.length; i++) (events[i].sent ? sends : receives).try_emplace(events[i].message, i);
    for (uint32_t i = 0; i < run.length; i++) {
      const auto& others = events[i].sent ? receives : sends;
      const auto found = others.find(events[i].message);
      run.other_end.push_back(found == others.end() ? NamedRun::kNowhere : found->second);
    }
  }

  // A message to somebody who was recorded, but did not receive it as long as the run lasted.
  static bool is_lost(const TalkEvent& event) {
    return event.sent && event.partner != TalkEvent::kOutside && event.text == TalkEvent::kUnknown;
  }

  // Of a failing run nothing counts that happens later than any passing run lasts: who waits for an answer that does
  // not come sees more of everything than who does not wait.
  void find_lengths() {
    int64_t longest = -1;
    for (const StudiedRun& run : runs_)
      if (!run.failed && !run.talk.events.empty()) longest = std::max(longest, run.talk.events.back().ns);
    for (const StudiedRun& run : runs_) {
      const auto end = std::ranges::upper_bound(run.talk.events, longest, {}, &TalkEvent::ns);
      lengths_.push_back(run.failed && longest >= 0 ? static_cast<size_t>(end - run.talk.events.begin())
                                                    : run.talk.events.size());
    }
  }

  static constexpr uint32_t kNoKind = ~uint32_t{0};

  std::span<const StudiedRun> runs_;
  Naming naming_;
  std::map<std::string, uint32_t> role_of_;
  std::map<std::tuple<uint32_t, uint32_t, bool, std::string>, uint32_t> shape_name_;
  std::map<std::tuple<uint32_t, uint32_t, uint64_t, std::string>, uint32_t> kind_of_;
  std::vector<Kind> kinds_;
  std::vector<size_t> lengths_;                  // by run: how many of its events count
  std::vector<std::vector<uint32_t>> kinds_of_;  // by run and event
  std::map<std::tuple<uint32_t, size_t, uint64_t>, uint32_t> name_of_;
};

}  // namespace

std::string without_numbers(const std::string& role) {
  std::string out;
  for (char each : role) {
    const bool digit = each >= '0' && each <= '9';
    if (!digit) out += each;
    else if (!out.ends_with('#')) out += '#';
  }
  return out;
}

Naming Naming::of(std::span<const StudiedRun> runs) { return Namer(runs).name(); }

}  // namespace friday
