#include "core/study/naming.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>

#include "core/study/shape.h"

namespace friday {
namespace {

// The shares of the runs that must have a value before it is a name (measured over four systems of up to 240 events a
// run: with more, causes had no name; with fewer, nearly all names stood in one run).
constexpr double kFieldShare = 0.15, kWholeShare = 0.3;
// A place with more different values is a counter or an id, which tells no two messages of a protocol apart.
constexpr size_t kMostValues = 4096, kMostNamed = 24;

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

struct RunCounts {
  uint32_t runs = 0, failing = 0;  // all, and those of them that failed
};

// Whether a value that so many of all runs have can be relied upon: it will come in a run like the failing ones. Of a
// number drawn by chance that is not so, though many runs have it.
bool can_be_relied_upon(const RunCounts& seen, const RunCounts& all) {
  constexpr double kNearlyAll = 0.8, kHalf = 0.5;
  constexpr uint32_t kNoChance = 3;  // failing runs
  const double share = static_cast<double>(seen.runs) / static_cast<double>(all.runs);
  const bool in_all_failing = all.failing > 0 && seen.failing == all.failing;
  return share >= kNearlyAll || (in_all_failing && (all.failing >= kNoChance || share >= kHalf));
}

// How many runs have which value at a place.
class Values {
 public:
  void see(uint64_t value, uint32_t run, bool failed) {
    if (counts_.size() > kMostValues) return;
    auto& [last, seen] = counts_.try_emplace(value, ~uint32_t{0}, RunCounts()).first->second;
    if (last == run) return;
    seen.runs++;
    seen.failing += failed;
    last = run;
  }
  bool varies() const { return counts_.size() > 1; }
  // Call when all runs were seen: the values of that many runs get names, if they are few.
  void choose(double least) {
    if (counts_.size() > kMostValues) return;
    for (const auto& [value, seen] : counts_)
      if (seen.second.runs >= least) named_.insert(value);
    if (named_.size() > kMostNamed || !varies()) named_.clear();
  }
  std::set<uint64_t> relied_upon(const RunCounts& all) const {
    std::set<uint64_t> values;
    for (uint64_t value : named_)
      if (can_be_relied_upon(counts_.at(value).second, all)) values.insert(value);
    return values;
  }
  bool has_name(uint64_t value) const { return named_.contains(value); }
  const std::set<uint64_t>& named() const { return named_; }

 private:
  std::unordered_map<uint64_t, std::pair<uint32_t, RunCounts>>
      counts_;  // the run that had it last, and how many had it
  std::set<uint64_t> named_;
};

// The events of one shape between two roles, in one direction.
struct Kind {
  uint32_t identity, half, general;  // names: with the partner, or both ends, as one of several alike
  uint32_t mask;                     // number of the shape's text
  std::vector<Values> fields;
  Values whole;
};

// What of a run's messages names are made of. All texts of a run are read once, and the runs beside each other.
class ShapedRun {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Text {
    uint32_t mask;        // index in masks()
    uint32_t first = 0;   // of its fields, in values_ and words_
    uint32_t fields = 0;  // how many
    uint64_t whole = 0;   // hash
    uint64_t length = 0;  // with which it was read
    bool binary = false;
  };

  // Of the first events. A message to somebody who was recorded, but did not receive it as long as the run lasted, has
  // no text.
  ShapedRun(const Talk& talk, size_t events) : of_text_(talk.texts.size()) {
    of_event_.reserve(events);
    for (const TalkEvent& event : std::span(talk.events).first(events)) {
      const bool is_lost = event.sent && event.partner != TalkEvent::kOutside && event.text == TalkEvent::kUnknown;
      of_event_.push_back(is_lost ? kNone : number_of(talk, event));
    }
    of_text_.clear();
    mask_.clear();
  }

  const std::vector<std::string>& masks() const { return masks_; }
  const std::vector<Text>& texts() const { return texts_; }
  // Of an event: the index of its text, or kNone.
  uint32_t text_of(size_t event) const { return of_event_[event]; }
  // Hashes, by field. A word that does not count is 0.
  std::span<const uint64_t> values_of(const Text& text) const {
    return std::span(values_).subspan(text.first, text.fields);
  }
  std::span<const uint64_t> words_of(const Text& text) const {
    return std::span(words_).subspan(text.first, text.fields);
  }

 private:
  // Of a binary message the length is a part, and may be another one where the first bytes are the same.
  uint32_t number_of(const Talk& talk, const TalkEvent& event) {
    if (event.text == TalkEvent::kUnknown) {
      const auto [known, is_new] = unknown_.try_emplace(event.length, texts_.size());
      if (is_new) add("", event.length);
      return known->second;
    }
    auto& known = of_text_[event.text];
    for (const auto& [length, number] : known)
      if (length == event.length || !texts_[number].binary) return number;
    known.emplace_back(event.length, static_cast<uint32_t>(texts_.size()));
    add(talk.texts[event.text], event.length);
    return known.back().second;
  }

  void add(std::string_view text, uint64_t length) {
    const Shape shape = shape_of(text, length);
    const auto [known, is_new] = mask_.try_emplace(shape.masked, static_cast<uint32_t>(masks_.size()));
    if (is_new) masks_.push_back(shape.masked);
    texts_.push_back({known->second, static_cast<uint32_t>(values_.size()), static_cast<uint32_t>(shape.fields.size()),
                      hash_of(text), length, shape.binary});
    for (const Field& field : shape.fields) {
      values_.push_back(hash_of(field.value));
      words_.push_back(field.word.empty() ? 0 : hash_of(field.word));
    }
  }

  std::vector<Text> texts_;
  std::vector<std::string> masks_;
  std::vector<uint64_t> values_, words_;
  std::vector<uint32_t> of_event_;
  // While they are read.
  std::unordered_map<std::string, uint32_t> mask_;
  std::vector<std::vector<std::pair<uint64_t, uint32_t>>> of_text_;
  std::map<uint64_t, uint32_t> unknown_;
};

// Who says something of a shape to whom. Compared for each event, so by numbers.
struct Use {
  uint32_t role, partner;  // indices in Naming::roles
  uint32_t mask;
  uint32_t sent;
  bool operator==(const Use&) const = default;
};
struct HashOfUse {
  size_t operator()(const Use& use) const { return XXH3_64bits(&use, sizeof use); }
};

class Namer {
 public:
  explicit Namer(std::span<const StudiedRun> runs) : runs_(runs) {}

  Naming name() {
    find_alike();
    find_roles();
    find_lengths();
    read_texts();
    for (uint32_t run = 0; run < runs_.size(); run++) see(run);
    const auto count = static_cast<double>(runs_.size());
    const RunCounts all{static_cast<uint32_t>(runs_.size()),
                        static_cast<uint32_t>(std::ranges::count(runs_, true, &StudiedRun::failed))};
    for (Kind& kind : kinds_) {
      for (Values& field : kind.fields) field.choose(std::max(2.0, kFieldShare * count));
      kind.whole.choose(std::max(2.0, kWholeShare * count));
      auto& relied = naming_.relied_values[masks_[kind.mask]];
      relied.resize(std::max(relied.size(), kind.fields.size()));
      for (size_t field = 0; field < kind.fields.size(); field++)
        relied[field].merge(kind.fields[field].relied_upon(all));
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

  void find_roles() {
    for (const StudiedRun& run : runs_) {
      std::vector<uint32_t>& roles = roles_of_.emplace_back();
      for (const std::string& name : run.talk.roles) roles.push_back(role(name));
    }
  }

  uint32_t general(uint32_t role) const { return role == TalkEvent::kOutside ? role : naming_.general[role]; }

  void read_texts() {
    shaped_.resize(runs_.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t run; (run = next++) < runs_.size();)
        shaped_[run] = std::make_unique<ShapedRun>(runs_[run].talk, lengths_[run]);
    };
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < std::min<size_t>(std::thread::hardware_concurrency(), runs_.size()); i++)
      others.emplace_back(work);
    work();
  }

  // The kind of an event, which is made if it is new.
  uint32_t kind_of(uint32_t run, const TalkEvent& event, uint32_t mask, size_t fields) {
    const uint32_t mine = roles_of_[run][event.role];
    const uint32_t other = event.partner == TalkEvent::kOutside ? event.partner : roles_of_[run][event.partner];
    const bool sent = event.sent != 0;
    const auto [known, is_new] = kind_of_.try_emplace({mine, other, mask, sent}, kinds_.size());
    if (is_new) {
      Kind made{shape_name(mine, other, sent, mask),
                shape_name(mine, general(other), sent, mask),
                shape_name(general(mine), general(other), sent, mask),
                mask,
                std::vector<Values>(fields),
                {}};
      kinds_.push_back(std::move(made));
    }
    return known->second;
  }

  uint32_t shape_name(uint32_t role, uint32_t partner, bool sent, uint32_t mask) {
    const auto [known, is_new] = shape_name_.try_emplace({role, partner, mask, sent}, naming_.identities.size());
    if (is_new) naming_.identities.push_back({role, partner, sent, Identity::Level::shape, masks_[mask]});
    return known->second;
  }

  // The number of a mask in all runs.
  uint32_t mask(const std::string& text) {
    const auto [known, is_new] = mask_.try_emplace(text, static_cast<uint32_t>(masks_.size()));
    if (is_new) masks_.push_back(text);
    return known->second;
  }

  void see(uint32_t run) {
    const ShapedRun& shaped = *shaped_[run];
    std::vector<uint32_t> masks;
    for (const std::string& text : shaped.masks()) masks.push_back(mask(text));
    // By text: kinds for which its values were noted. More often than needed does no harm.
    std::vector<std::array<uint32_t, 4>> noted(shaped.texts().size(), {kNoKind, kNoKind, kNoKind, kNoKind});
    std::vector<uint32_t>& kinds = kinds_of_.emplace_back();
    kinds.reserve(lengths_[run]);
    for (size_t i = 0; i < lengths_[run]; i++) {
      const uint32_t number = shaped.text_of(i);
      if (number == ShapedRun::kNone) {
        kinds.push_back(kNoKind);
        continue;
      }
      const ShapedRun::Text& text = shaped.texts()[number];
      kinds.push_back(kind_of(run, runs_[run].talk.events[i], masks[text.mask], text.fields));
      auto& known = noted[number];
      if (std::ranges::find(known, kinds.back()) != known.end()) continue;
      if (const auto free = std::ranges::find(known, kNoKind); free != known.end()) *free = kinds.back();
      Kind& kind = kinds_[kinds.back()];
      const auto values = shaped.values_of(text);
      for (size_t field = 0; field < values.size(); field++)
        kind.fields[field].see(values[field], run, runs_[run].failed);
      if (values.size() > 1) kind.whole.see(text.whole, run, runs_[run].failed);
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
    const ShapedRun& shaped = *shaped_[run];
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
      const ShapedRun::Text& text = shaped.texts()[shaped.text_of(i)];
      const Kind& kind = kinds_[number];
      out.names.push_back(kind.identity);
      if (kind.half != kind.identity) out.names.push_back(kind.half);
      out.general.push_back(kind.general);
      const std::string_view bytes = event.text == TalkEvent::kUnknown ? "" : std::string_view(talk.texts[event.text]);
      const auto values = shaped.values_of(text), words = shaped.words_of(text);
      for (size_t field = 0; field < values.size(); field++) {
        if (kind.fields[field].has_name(values[field]))
          out.names.push_back(identity(number, field, values[field], Identity::Level::field,
                                       [&] { return with_field(shape_of(bytes, text.length), field); }));
        if (words[field] && kind.fields[field].varies()) out.words.push_back(words[field]);
      }
      if (kind.whole.has_name(text.whole))
        out.names.push_back(identity(number, values.size(), text.whole, Identity::Level::whole,
                                     [&] { return as_it_was(bytes, text.length); }));
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

  // Of a failing run nothing counts that happens later than any passing run lasts: who waits for an answer that does
  // not come sees more of everything than who does not wait. The time of a failing run begins with its first message,
  // as programs may be slow to begin; that of a passing one with its programs, so that some milliseconds make no
  // difference.
  void find_lengths() {
    uint64_t longest = 0;
    bool is_one_passed = false;
    for (const StudiedRun& run : runs_) {
      if (run.failed || run.talk.events.empty()) continue;
      is_one_passed = true;
      longest = std::max(longest, static_cast<uint64_t>(std::max<int64_t>(0, run.talk.events.back().ns)));
    }
    for (const StudiedRun& run : runs_) {
      const auto& events = run.talk.events;
      const uint64_t first = events.empty() ? 0 : static_cast<uint64_t>(events.front().ns);
      const auto since_first = [first](const TalkEvent& event) {  // a file may say any number
        return static_cast<uint64_t>(event.ns) - first;
      };
      const bool is_cut = run.failed && is_one_passed;
      const auto end = is_cut ? std::ranges::upper_bound(events, longest, {}, since_first) : events.end();
      lengths_.push_back(static_cast<size_t>(end - events.begin()));
    }
  }

  static constexpr uint32_t kNoKind = ~uint32_t{0};

  std::span<const StudiedRun> runs_;
  Naming naming_;
  std::map<std::string, uint32_t> role_of_;
  std::vector<std::unique_ptr<ShapedRun>> shaped_;  // by run
  std::vector<std::string> masks_;                  // of all runs
  std::unordered_map<std::string, uint32_t> mask_;
  std::unordered_map<Use, uint32_t, HashOfUse> shape_name_;
  std::unordered_map<Use, uint32_t, HashOfUse> kind_of_;
  std::vector<std::vector<uint32_t>> roles_of_;  // by run and number in its talk
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

bool Naming::has_relied_value(const Shape& shape, size_t field) const {
  const auto known = relied_values.find(shape.masked);
  return known != relied_values.end() && field < known->second.size() &&
         known->second[field].contains(hash_of(shape.fields[field].value));
}

Naming Naming::of(std::span<const StudiedRun> runs) { return Namer(runs).name(); }

}  // namespace friday
