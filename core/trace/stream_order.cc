#include "core/trace/stream_order.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace friday {

using namespace format;

void ReceivedBytes::lay(PlacedTransfer part) {
  part.start = size();
  parts_.push_back(part);
}

size_t ReceivedBytes::part_at(uint64_t position) const {
  // Most queries ask for the last part.
  if (!parts_.empty() && parts_.back().start <= position) return parts_.size() - 1;
  auto after = std::ranges::upper_bound(parts_, position, {}, &PlacedTransfer::start);
  return static_cast<size_t>(after - parts_.begin()) - 1;
}

std::optional<uint64_t> ReceivedBytes::hash(uint64_t position, uint64_t length, uint64_t seed) {
  if (length > size() || position > size() - length) return std::nullopt;
  size_t index = part_at(position);
  load(index);
  if (position + length <= parts_[index].end() && pieces_.size() == 1 &&
      pieces_[0].size() == parts_[index].transfer->length)
    return run_hash(pieces_[0].subspan(position - parts_[index].start, length), seed);
  buffer_.clear();
  for (uint64_t at = position; buffer_.size() < length; ++index) {
    load(index);
    uint64_t skip = at - parts_[index].start, before = buffer_.size();
    for (std::span<const std::byte> piece : pieces_) {
      uint64_t dropped = std::min<uint64_t>(skip, piece.size());
      skip -= dropped;
      piece = piece.subspan(dropped);
      piece = piece.first(std::min<uint64_t>(piece.size(), length - buffer_.size()));
      buffer_.insert(buffer_.end(), piece.begin(), piece.end());
    }
    at = parts_[index].end();
    if (buffer_.size() - before != std::min(at, position + length) - (position + before)) return std::nullopt;
  }
  return run_hash(buffer_, seed);
}

void ReceivedBytes::load(size_t index) {
  if (index == loaded_) return;
  PayloadAnswer answer = facts_.payload(facts_.channel(parts_[index].channel), *parts_[index].transfer);
  pieces_ = answer ? std::move(answer->pieces) : std::vector<std::span<const std::byte>>{};
  loaded_ = index;
}

namespace {

// How many overlapping calls are tried for one place.
constexpr size_t kMostCandidates = 64;
// How many placed calls the search can undo to revise a choice.
constexpr size_t kMostUndone = 4096;
// How many steps may be undone after contradictions: a fixed number, plus so many for each call that is placed.
constexpr uint64_t kPatience = 20'000, kPatienceEach = 32;
// Limits of the search for a place after a contradiction: how many sends of a thread may be skipped, how many receives
// and bytes are examined, how many bytes are hashed (for one place, and in all), and how many bytes must agree to count
// as proof.
constexpr size_t kSendsAhead = 32, kReceivesAhead = 64;
constexpr uint64_t kBytesAhead = 64 << 10, kHashedAhead = 16 << 20, kHashedAheadInAll = 256 << 20;
constexpr uint64_t kProof = 16, kProofAtEnd = 4;
constexpr int kStepsOfProof = 64;

// The calls of one thread on one channel.
struct Lane {
  uint32_t channel;
  struct Call {
    const Transfer* transfer;
    uint64_t seed;  // seed of the hash of a send
  };
  std::vector<Call> calls;
  size_t next = 0;

  bool is_done() const { return next == calls.size(); }
  const Transfer& head() const { return *calls[next].transfer; }
  uint64_t returned() const { return is_done() ? ~uint64_t{0} : head().returned; }
};

bool is_in_stream(const Transfer& transfer) { return transfer.length > 0 && !(transfer.flags & (kPeek | kOutOfBand)); }

// Where the bytes of an end begin that the traces have: later than at 0 if earlier parts of them were removed.
uint64_t base_of(const FactSet& facts, std::span<const uint32_t> channels, uint64_t Channel::*base) {
  uint64_t least = ~uint64_t{0};
  for (uint32_t index : channels)
    if (facts.channel(index).inherited_from == kNoChannel) least = std::min(least, facts.channel(index).*base);
  return least == ~uint64_t{0} ? 0 : least;
}

// The calls of one side that are still to be placed.
class Side {
 public:
  // `from`: sends that began before this position (Transfer::offset) are left out.
  Side(const FactSet& facts, std::span<const uint32_t> channels, bool out, uint64_t from = 0) {
    for (uint32_t index : channels) {
      const Channel& channel = facts.channel(index);
      std::map<uint32_t, uint32_t> by_thread;
      uint64_t seed = channel.out_seed;
      for (const Transfer& transfer : out ? channel.out : channel.in) {
        if (is_in_stream(transfer) && (!out || transfer.offset >= from)) {
          auto [lane, is_new] = by_thread.try_emplace(transfer.thread, static_cast<uint32_t>(lanes_.size()));
          if (is_new) lanes_.push_back({index, {}, 0});
          lanes_[lane->second].calls.push_back({&transfer, seed});
        }
        seed = transfer.hash;
      }
    }
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) soonest_.push_back(lane);
    std::ranges::stable_sort(soonest_, {}, [&](uint32_t lane) { return lanes_[lane].returned(); });
  }

  // The lanes whose next calls may be next in the stream, ordered by their returns: those entered before any other
  // returned.
  void candidates(std::vector<uint32_t>& list) const {
    list.clear();
    if (is_done()) return;
    const uint64_t first_return = lanes_[soonest_.front()].returned();
    for (uint32_t lane : soonest_) {
      if (lanes_[lane].is_done() || list.size() == kMostCandidates) break;
      if (lanes_[lane].head().entered <= first_return) list.push_back(lane);
    }
  }
  const Lane& lane(uint32_t index) const { return lanes_[index]; }
  std::span<const Lane> lanes() const { return lanes_; }
  bool is_done() const { return soonest_.empty() || lanes_[soonest_.front()].is_done(); }
  bool is_plain() const { return lanes_.size() <= 1; }

  void advance(uint32_t lane) {
    ++lanes_[lane].next;
    settle(lane);
  }
  void take_back(uint32_t lane) {
    --lanes_[lane].next;
    settle(lane);
  }

 private:
  // Restores the order of `soonest_` after the head of a lane has changed.
  void settle(uint32_t lane) {
    if (is_plain()) return;
    auto at = std::ranges::find(soonest_, lane);
    auto later = [&](uint32_t a, uint32_t b) {
      return std::pair(lanes_[a].returned(), a) > std::pair(lanes_[b].returned(), b);
    };
    for (; at + 1 != soonest_.end() && later(*at, *(at + 1)); ++at) std::swap(*at, *(at + 1));
    for (; at != soonest_.begin() && later(*(at - 1), *at); --at) std::swap(*at, *(at - 1));
  }

  std::vector<Lane> lanes_;
  std::vector<uint32_t> soonest_;  // lanes ordered by when their next call returned; finished lanes last
};

class StreamSearch {
 public:
  explicit StreamSearch(const StreamQuestion& question)
      : question_(question),
        in_base_(base_of(question.facts, question.to, &Channel::in_base)),
        sends_(question.facts, question.from, true, in_base_),
        receives_(question.facts, question.to, false),
        received_(question.facts) {
    // What was sent before the receiver's trace begins, or received before the sender's does, has no counterpart.
    uint64_t first = base_of(question.facts, question.from, &Channel::out_base);
    if (in_base_ > first && !sends_.is_done()) {
      first = ~uint64_t{0};
      for (const Lane& lane : sends_.lanes()) first = std::min(first, lane.head().offset);
    }
    if (first > in_base_) from_ = first - in_base_;
  }

  StreamOrder run();

 private:
  // A point at which there were several ways to continue: how many sends and receives had been placed, and the next way
  // to try.
  struct Choice {
    size_t sent, received, way;
  };
  enum class Step { placed, nothing_left, contradiction };

  uint64_t position() const { return std::max(from_, placed_.empty() ? 0 : placed_.back().end()); }
  size_t count() const { return placed_.size() + received_.parts().size(); }
  uint32_t node_of(uint32_t channel) const { return question_.facts.channel(channel).node; }

  Step step(size_t way);
  bool try_way(size_t way);
  bool try_send(uint32_t lane, bool unseen);
  bool try_cut_off(uint32_t lane);
  bool is_timely(const Lane& lane, const Transfer& send, uint64_t at) const;
  void place(uint32_t lane);
  void lay(uint32_t lane);
  void undo_to(size_t sent, size_t received);

  bool think_again();
  void keep_farthest();
  void restore_farthest();

  bool find_place();
  bool find_place_at(uint64_t at, size_t ahead);
  bool agrees(const Lane& lane, size_t call, uint64_t at);
  bool is_place(uint32_t lane, size_t call, uint64_t at);
  bool proves();
  void skip_to(uint32_t lane, size_t call);

  std::vector<PlacedTransfer> peeks() const;

  const StreamQuestion& question_;
  const uint64_t in_base_;  // positions count from here on
  Side sends_, receives_;
  ReceivedBytes received_;
  std::vector<PlacedTransfer> placed_, skipped_;
  uint64_t from_ = 0;                          // bytes before this position that no send explains remain unassigned
  std::vector<uint32_t> senders_, receivers_;  // candidates for the next place; used by step()
  std::deque<Choice> choices_;
  uint64_t patience_ = kPatience;
  // The longest attempt before a contradiction: what it had placed after `base_`.
  Choice base_{};
  size_t farthest_ = 0, reached_ = 0;  // reached_: the largest number ever placed
  std::vector<PlacedTransfer> farthest_sent_, farthest_received_;
  uint64_t hashed_ahead_ = 0, hashed_ahead_in_all_ = 0;
};

bool StreamSearch::is_timely(const Lane& lane, const Transfer& send, uint64_t at) const {
  const uint64_t end = std::min(at + send.length, received_.size());
  for (size_t n = received_.part_at(at); n < received_.parts().size() && received_.parts()[n].start < end; ++n) {
    const PlacedTransfer& part = received_.parts()[n];
    if (!question_.may_precede(node_of(lane.channel), send.time, node_of(part.channel), part.transfer->time))
      return false;
  }
  return true;
}

void StreamSearch::place(uint32_t lane) {
  placed_.push_back({sends_.lane(lane).channel, &sends_.lane(lane).head(), position(), lane});
  sends_.advance(lane);
}

void StreamSearch::lay(uint32_t lane) {
  received_.lay({receives_.lane(lane).channel, &receives_.lane(lane).head(), 0, lane});
  receives_.advance(lane);
}

void StreamSearch::undo_to(size_t sent, size_t received) {
  for (; placed_.size() > sent; placed_.pop_back()) sends_.take_back(placed_.back().lane);
  for (; received_.parts().size() > received; received_.take_back()) receives_.take_back(received_.parts().back().lane);
}

// Places a send if it equals the bytes received at the position: by hash or, if its contents were not seen, by length.
bool StreamSearch::try_send(uint32_t index, bool unseen) {
  const Lane& lane = sends_.lane(index);
  const Transfer& send = lane.head();
  const uint64_t at = position();
  if (at >= received_.size() || send.length > received_.size() - at || !is_timely(lane, send, at)) return false;
  const auto hash = send.is_unseen ? std::nullopt : received_.hash(at, send.length, lane.calls[lane.next].seed);
  if (hash.has_value() == unseen || (hash && *hash != send.hash)) return false;
  place(index);
  placed_.back().proven = !unseen;
  return true;
}

// Places the last send, of which only the beginning was received.
bool StreamSearch::try_cut_off(uint32_t index) {
  const Lane& lane = sends_.lane(index);
  const uint64_t at = position();
  if (!receives_.is_done() || at >= received_.size() || lane.head().length <= received_.size() - at ||
      !is_timely(lane, lane.head(), at))
    return false;
  place(index);
  return true;
}

// Ways to continue are numbered: first each candidate send whose hash agrees, then each candidate send with unknown
// contents, then each candidate receive, then each send of which only a part was received.
bool StreamSearch::try_way(size_t way) {
  const size_t sends = senders_.size(), receives = receivers_.size();
  if (way < sends) return try_send(senders_[way], false);
  if (way < 2 * sends) return try_send(senders_[way - sends], true);
  if (way >= 2 * sends + receives) return try_cut_off(senders_[way - 2 * sends - receives]);
  lay(receivers_[way - 2 * sends]);
  return true;
}

// Places one more call, using the first way from number `way` on that succeeds.
StreamSearch::Step StreamSearch::step(size_t way) {
  sends_.candidates(senders_);
  if (senders_.empty()) return Step::nothing_left;
  receivers_.clear();
  const uint64_t left = received_.size() - std::min(received_.size(), position());
  // Another receive helps only if a send needs more bytes than have been received so far.
  if (std::ranges::any_of(senders_, [&](uint32_t lane) { return sends_.lane(lane).head().length > left; }))
    receives_.candidates(receivers_);
  if (left == 0 && receivers_.empty()) return Step::nothing_left;
  const bool choose = !sends_.is_plain() || !receives_.is_plain();
  for (const size_t ways = 3 * senders_.size() + receivers_.size(); way < ways; ++way) {
    const Choice choice{placed_.size(), received_.parts().size(), way + 1};
    if (!try_way(way)) continue;
    if (choose && choice.way < ways) choices_.push_back(choice);
    if (choices_.size() > kMostUndone) choices_.pop_front();
    return Step::placed;
  }
  return Step::contradiction;
}

void StreamSearch::keep_farthest() {
  if (count() <= farthest_ || choices_.empty()) return;
  farthest_ = count();
  base_ = choices_.front();
  farthest_sent_.assign(placed_.begin() + static_cast<ptrdiff_t>(base_.sent), placed_.end());
  farthest_received_.assign(received_.parts().begin() + static_cast<ptrdiff_t>(base_.received),
                            received_.parts().end());
}

void StreamSearch::restore_farthest() {
  choices_.clear();
  if (count() < farthest_) {
    undo_to(base_.sent, base_.received);
    for (const PlacedTransfer& part : farthest_received_) lay(part.lane);
    for (const PlacedTransfer& send : farthest_sent_) {
      place(send.lane);
      placed_.back() = send;
    }
  }
  farthest_ = 0;
}

// Undoes calls back to the last choice that has another way. Returns false if there is none or the patience is used up.
bool StreamSearch::think_again() {
  keep_farthest();
  while (!choices_.empty() && patience_ > 0) {
    const Choice choice = choices_.back();
    choices_.pop_back();
    undo_to(choice.sent, choice.received);
    --patience_;
    if (step(choice.way) != Step::contradiction) return true;
  }
  restore_farthest();
  return false;
}

bool StreamSearch::agrees(const Lane& lane, size_t call, uint64_t at) {
  const Transfer& send = *lane.calls[call].transfer;
  if (send.is_unseen || at >= received_.size() || send.length > received_.size() - at) return false;
  hashed_ahead_ += send.length + 8;
  const auto hash = received_.hash(at, send.length, lane.calls[call].seed);
  return hash && *hash == send.hash && is_timely(lane, send, at);
}

// Skips the sends of lane `chosen` before `call`, and all sends that returned before that call was entered.
void StreamSearch::skip_to(uint32_t chosen, size_t call) {
  const uint64_t entered = sends_.lane(chosen).calls[call].transfer->entered;
  for (uint32_t lane = 0; lane < sends_.lanes().size(); ++lane)
    while (!sends_.lane(lane).is_done() &&
           (lane == chosen ? sends_.lane(lane).next < call : sends_.lane(lane).head().returned < entered)) {
      skipped_.push_back({sends_.lane(lane).channel, &sends_.lane(lane).head(), position(), lane});
      sends_.advance(lane);
    }
}

// Whether enough bytes agree, from the last placed send on, to exclude a coincidence.
bool StreamSearch::proves() {
  uint64_t proven = placed_.back().transfer->length;
  for (int steps = 0; proven < kProof && steps < kStepsOfProof; ++steps) {
    const Step done = step(0);
    if (done == Step::contradiction) return false;
    if (done == Step::nothing_left)
      return proven >= kProofAtEnd && receives_.is_done() && position() == received_.size();
    if (placed_.back().proven) proven = placed_.back().end() - from_;
  }
  return proven >= kProof;
}

// Continues with a send at a place if the bytes that follow there agree as well.
bool StreamSearch::is_place(uint32_t lane, size_t call, uint64_t at) {
  if (!agrees(sends_.lane(lane), call, at)) return false;
  const size_t sent = placed_.size(), received = received_.parts().size(), skipped = skipped_.size();
  const uint64_t from = from_;
  skip_to(lane, call);
  from_ = at;
  place(lane);
  placed_.back().proven = true;
  const bool proven = proves();
  choices_.clear();
  if (proven) return true;
  undo_to(sent, received);
  for (; skipped_.size() > skipped; skipped_.pop_back()) sends_.take_back(skipped_.back().lane);
  from_ = from;
  return false;
}

bool StreamSearch::find_place_at(uint64_t at, size_t ahead) {
  for (uint32_t lane = 0; lane < std::min(sends_.lanes().size(), kMostCandidates); ++lane) {
    const size_t next = sends_.lane(lane).next, end = std::min(sends_.lane(lane).calls.size(), next + ahead);
    for (size_t call = next; call < end && hashed_ahead_ < kHashedAhead; ++call)
      if (is_place(lane, call, at)) return true;
  }
  return false;
}

// After a contradiction, finds the next place where received bytes agree with a send. The bytes between may have been
// sent, or received, by a process that is not recorded.
bool StreamSearch::find_place() {
  const uint64_t at = position();
  hashed_ahead_in_all_ += std::exchange(hashed_ahead_, 0);
  if (hashed_ahead_in_all_ > kHashedAheadInAll) return false;
  for (size_t n = 0; n < kReceivesAhead && !receives_.is_done(); ++n) {
    receives_.candidates(receivers_);
    lay(receivers_.front());
  }
  if (at >= received_.size()) return false;
  const std::vector<PlacedTransfer>& parts = received_.parts();
  if (find_place_at(at, kSendsAhead)) return true;
  for (uint64_t place = at + 1; place < std::min(received_.size(), at + kBytesAhead) && hashed_ahead_ < kHashedAhead;
       ++place)
    if (find_place_at(place, 2)) return true;
  hashed_ahead_in_all_ += std::exchange(hashed_ahead_, 0);
  for (size_t n = received_.part_at(at) + 1; n < parts.size(); ++n)
    if (find_place_at(parts[n].start, kSendsAhead)) return true;
  return false;
}

std::vector<PlacedTransfer> StreamSearch::peeks() const {
  std::vector<PlacedTransfer> list;
  for (uint32_t index : question_.to) {
    const Channel& channel = question_.facts.channel(index);
    auto is_peek = [](const Transfer& transfer) {
      return transfer.length > 0 && (transfer.flags & kPeek) && !(transfer.flags & kOutOfBand);
    };
    if (std::ranges::none_of(channel.in, is_peek)) continue;
    std::map<const Transfer*, uint64_t> ends;
    for (const PlacedTransfer& part : received_.parts())
      if (part.channel == index) ends[part.transfer] = part.end();
    std::map<uint32_t, uint64_t> behind;  // thread -> end of what it has received so far
    for (const Transfer& transfer : channel.in) {
      if (is_peek(transfer)) list.push_back({index, &transfer, behind[transfer.thread], 0});
      else if (auto end = ends.find(&transfer); end != ends.end()) behind[transfer.thread] = end->second;
    }
  }
  std::ranges::stable_sort(list, {}, &PlacedTransfer::start);
  return list;
}

StreamOrder StreamSearch::run() {
  StreamOrder order;
  while (position() < question_.limit) {
    const Step done = step(0);
    if (done == Step::nothing_left) break;
    if (done == Step::placed) {
      if (count() > reached_) reached_ = count(), patience_ = std::min(patience_ + kPatienceEach, kPatience);
      else if (patience_ > 0) --patience_;
      continue;
    }
    if (think_again()) continue;
    order.fits = false;
    if (question_.to_the_end && find_place()) continue;
    order.gave_up = true;
    break;
  }
  while (question_.to_the_end && !receives_.is_done()) {
    receives_.candidates(receivers_);
    lay(receivers_.front());
  }
  for (const PlacedTransfer& send : placed_)
    if (send.proven) order.verified += send.transfer->length;
  order.peeks = peeks();
  order.sends = std::move(placed_);
  order.skipped = std::move(skipped_);
  order.receives = received_.parts();
  return order;
}

}  // namespace

ReceivedBytes::ReceivedBytes(const FactSet& facts, std::span<const uint32_t> channels) : facts_(facts) {
  Side side(facts, channels, false);
  for (std::vector<uint32_t> next; !side.is_done(); side.advance(next.front())) {
    side.candidates(next);
    const Lane& lane = side.lane(next.front());
    lay({lane.channel, &lane.head(), 0, next.front()});
  }
}

StreamOrder order_stream(const StreamQuestion& question) { return StreamSearch(question).run(); }

}  // namespace friday
