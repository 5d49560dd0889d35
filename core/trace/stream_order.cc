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
  // As a rule it is one of the last.
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
  pieces_ = facts_.payload(facts_.channel(parts_[index].channel), *parts_[index].transfer);
  loaded_ = index;
}

namespace {

// How many calls that overlap are tried for one place.
constexpr size_t kMostCandidates = 64;
// How far back a choice is thought over, in calls placed since.
constexpr size_t kMostUndone = 4096;
// Steps that may be taken again where something contradicts, and besides for each call that is placed.
constexpr uint64_t kPatience = 20'000, kPatienceEach = 32;
// Behind a contradiction: how many sends of a thread may be passed over, how many receives and bytes are looked at, how
// many bytes are hashed for it, here and in all, and how much must agree.
constexpr size_t kSendsAhead = 32, kReceivesAhead = 64;
constexpr uint64_t kBytesAhead = 64 << 10, kHashedAhead = 16 << 20, kHashedAheadInAll = 256 << 20;
constexpr uint64_t kProof = 16, kProofAtEnd = 4;
constexpr int kStepsOfProof = 64;

// What one thread moved through a channel.
struct Lane {
  uint32_t channel;
  struct Call {
    const Transfer* transfer;
    uint64_t seed;  // of a send's hash
  };
  std::vector<Call> calls;
  size_t next = 0;

  bool is_done() const { return next == calls.size(); }
  const Transfer& head() const { return *calls[next].transfer; }
  uint64_t returned() const { return is_done() ? ~uint64_t{0} : head().returned; }
};

bool is_in_stream(const Transfer& transfer) { return transfer.length > 0 && !(transfer.flags & (kPeek | kOutOfBand)); }

// All calls of one side that are still to be placed.
class Side {
 public:
  Side(const FactSet& facts, std::span<const uint32_t> channels, bool out) {
    for (uint32_t index : channels) {
      const Channel& channel = facts.channel(index);
      std::map<uint32_t, uint32_t> by_thread;
      uint64_t seed = channel.out_seed;
      for (const Transfer& transfer : out ? channel.out : channel.in) {
        if (is_in_stream(transfer)) {
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

  // The lanes whose next calls could come next in the stream, in the order of their returns: those entered before any
  // other has returned.
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
  // Puts a lane whose head has changed back into its place among the others.
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
  std::vector<uint32_t> soonest_;  // lanes by when their next call returned; those that are done last
};

class StreamSearch {
 public:
  explicit StreamSearch(const StreamQuestion& question)
      : question_(question),
        sends_(question.facts, question.from, true),
        receives_(question.facts, question.to, false),
        received_(question.facts) {}

  StreamOrder run();

 private:
  // How much had been placed when there was more than one way to go on, and which way is the next to be tried.
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
  Side sends_, receives_;
  ReceivedBytes received_;
  std::vector<PlacedTransfer> placed_, skipped_;
  uint64_t from_ = 0;                          // what lies before and no send explains stays unknown
  std::vector<uint32_t> senders_, receivers_;  // lanes that could be next; in step()
  std::deque<Choice> choices_;
  uint64_t patience_ = kPatience;
  // The way that came farthest before it contradicted: what it had placed behind `base_`.
  Choice base_{};
  size_t farthest_ = 0, reached_ = 0;  // reached_: the most that had ever been placed
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

// Whether a send is what was received at the position: by its hash or, if it has none, by its length.
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

// The last send: it ends behind what was received of it.
bool StreamSearch::try_cut_off(uint32_t index) {
  const Lane& lane = sends_.lane(index);
  const uint64_t at = position();
  if (!receives_.is_done() || at >= received_.size() || lane.head().length <= received_.size() - at ||
      !is_timely(lane, lane.head(), at))
    return false;
  place(index);
  return true;
}

// The ways to go on are numbered: each send that could be next if it agrees, each of which nothing is known, each
// receive that could be next, each send as one that was received in part.
bool StreamSearch::try_way(size_t way) {
  const size_t sends = senders_.size(), receives = receivers_.size();
  if (way < sends) return try_send(senders_[way], false);
  if (way < 2 * sends) return try_send(senders_[way - sends], true);
  if (way >= 2 * sends + receives) return try_cut_off(senders_[way - 2 * sends - receives]);
  lay(receivers_[way - 2 * sends]);
  return true;
}

// Places one more call, by the first way that can be gone from `way` on.
StreamSearch::Step StreamSearch::step(size_t way) {
  sends_.candidates(senders_);
  if (senders_.empty()) return Step::nothing_left;
  receivers_.clear();
  const uint64_t left = received_.size() - std::min(received_.size(), position());
  // One more receive is of use only to a send that needs more bytes than there are.
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

// Goes back to the last choice that has another way. False: there is none, or enough has been tried.
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

// Passes over what a thread did before a call, and over all that must have come before that one.
void StreamSearch::skip_to(uint32_t chosen, size_t call) {
  const uint64_t entered = sends_.lane(chosen).calls[call].transfer->entered;
  for (uint32_t lane = 0; lane < sends_.lanes().size(); ++lane)
    while (!sends_.lane(lane).is_done() &&
           (lane == chosen ? sends_.lane(lane).next < call : sends_.lane(lane).head().returned < entered)) {
      skipped_.push_back({sends_.lane(lane).channel, &sends_.lane(lane).head(), position(), lane});
      sends_.advance(lane);
    }
}

// Whether so many bytes agree from the last send on that it is no accident that it does.
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

// Goes on with a call at a place, if what follows there agrees as well.
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

// Behind a contradiction: the next place where what was received agrees with a send. Bytes may be there that nobody
// recorded sent, or sends that nobody recorded received.
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
    std::map<uint32_t, uint64_t> behind;  // thread -> behind what it has received
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
