// Two sends that follow each other, of a run, and what is received between them.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/study/naming.h"
#include "core/study/numbering.h"

namespace friday {

// The words of a run's messages, by number.
class Words {
 public:
  // `run` must stay as long as this does.
  explicit Words(const NamedRun& run) : run_(run) {
    Numbering numbering(run.words.size());
    numbers_.reserve(run.words.size());
    for (uint64_t word : run.words) numbers_.push_back(numbering(word));
    count_ = numbering.count();
  }
  size_t count() const { return count_; }
  std::span<const uint32_t> of(size_t event) const {
    const uint32_t first = run_.first_word[event];
    return std::span(numbers_).subspan(first, run_.first_word[event + 1] - first);
  }
  bool has(size_t event, uint32_t word) const { return std::ranges::find(of(event), word) != of(event).end(); }

 private:
  const NamedRun& run_;
  std::vector<uint32_t> numbers_;
  size_t count_ = 0;
};

// The last event of each sequence of sends, by a key that says which sequence.
class LastSends {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // Puts the event in its place. Returns the one before, or kNone.
  uint32_t exchange(uint64_t key, size_t event) {
    const uint32_t number = numbering_(key);
    if (number == last_.size()) last_.push_back(kNone);
    return std::exchange(last_[number], static_cast<uint32_t>(event));
  }
  // The key of all sends from a node to a partner.
  static uint64_t way(const TalkEvent& send) { return uint64_t{send.node} << 32 | send.partner; }

 private:
  Numbering numbering_;
  std::vector<uint32_t> last_;
};

// Calls f(first, last) for each two consecutive sends of a node to one partner.
template <typename F>
void for_each_segment(const NamedRun& run, F f) {
  LastSends sends;
  for (size_t event = 0; event < run.size(); event++) {
    const TalkEvent& send = run.talk->events[event];
    if (!send.sent || send.partner == TalkEvent::kOutside) continue;
    const uint32_t before = sends.exchange(LastSends::way(send), event);
    if (before != LastSends::kNone) f(before, event);
  }
}

// The same of sends that have a word in common, and are consecutive among those with it: f(word, first, last).
template <typename F>
void for_each_segment_of_word(const NamedRun& run, const Words& words, F f) {
  Numbering ways;
  LastSends sends;
  for (size_t event = 0; event < run.size(); event++) {
    const TalkEvent& send = run.talk->events[event];
    if (!send.sent || send.partner == TalkEvent::kOutside) continue;
    const uint64_t way = uint64_t{ways(LastSends::way(send))} << 32;
    for (uint32_t word : words.of(event)) {
      const uint32_t before = sends.exchange(way | word, event);
      if (before != LastSends::kNone && before != event) f(word, before, event);
    }
  }
}

// A receive, with what is asked of it most often.
struct Receive {
  uint32_t event, node;
  uint32_t sender;  // the node that sent it; NamedRun::kNowhere
  bool tainted;
};

inline Receive receive_at(const NamedRun& run, uint32_t event) {
  const uint32_t sent = run.other_end[event];
  const uint32_t sender = sent == NamedRun::kNowhere ? NamedRun::kNowhere : run.talk->events[sent].node;
  return {event, run.talk->events[event].node, sender, run.tainted[event]};
}

// In order.
inline std::vector<Receive> receives_of(const NamedRun& run) {
  std::vector<Receive> receives;
  for (uint32_t event = 0; event < run.size(); event++)
    if (!run.talk->events[event].sent) receives.push_back(receive_at(run, event));
  return receives;
}

// Whether it is not of the node that sends a message, and of nothing that this node has sent.
inline bool comes_from_elsewhere(const Receive& receive, uint32_t node) {
  return receive.node != node && receive.sender != node;
}

// Calls f(receive) for each untainted receive of something from elsewhere between two messages, until it returns false.
// `receives`: those to look at, in order. `begin(event)` is the index of the first one of these behind an event.
// Returns how many it has looked at.
template <typename Begin, typename F>
size_t for_each_between(const NamedRun& run, size_t first, size_t last, std::span<const Receive> receives, Begin begin,
                        F f) {
  const auto& events = run.talk->events;
  const uint32_t from = run.other_end[first], to = run.other_end[last], node = events[first].node;
  const bool one_receiver =
      from != NamedRun::kNowhere && to != NamedRun::kNowhere && events[from].node == events[to].node;
  size_t looked = 0;
  const auto look = [&](size_t low, size_t high, bool there) {
    for (size_t at = begin(low); at < receives.size() && receives[at].event < high; at++, looked++) {
      const Receive& receive = receives[at];
      const bool is_there = one_receiver && receive.node == events[from].node;
      if (is_there == there && !receive.tainted && comes_from_elsewhere(receive, node) && !f(receive)) return false;
    }
    return true;
  };
  if (look(first, last, false) && one_receiver) look(from, to, true);
  return looked;
}

template <typename F>
size_t for_each_between(const NamedRun& run, size_t first, size_t last, std::span<const Receive> receives, F f) {
  const auto begin = [&](size_t event) {
    const auto behind =
        std::ranges::upper_bound(receives, event, {}, [](const Receive& each) -> size_t { return each.event; });
    return static_cast<size_t>(behind - receives.begin());
  };
  return for_each_between(run, first, last, receives, begin, f);
}

// How often the events of a run are looked at for what stands between two of them. Where ten processes talk it is some
// ten times; with hundreds of them, or with messages that overtake each other, it would be quadratic.
inline size_t most_looks(const NamedRun& run) {
  constexpr size_t kMostLooks = 200, kSmallRun = 10'000;
  return kMostLooks * std::max(run.size(), kSmallRun);
}

}  // namespace friday
