// Matches connections: TCP, Unix sockets, socketpairs, pipes. First the two ends are paired, then their bytes are put
// in correspondence (stream_order.h).
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/trace/matcher.h"

namespace friday {

using namespace format;

namespace {

constexpr uint64_t kNoLimit = ~uint64_t{0};
constexpr uint64_t kTranslatedBytes = 1 << 20;
// A proxy that has not forwarded a connection after this time has given it up.
constexpr int64_t kLongestOpeningNs = 60'000'000'000;

// The first send of a channel, if it is at the start of the stream and its contents are known.
const Transfer* first_send(const Channel& channel) {
  if (channel.out.empty() || channel.out_seed != 0) return nullptr;
  const Transfer& first = channel.out.front();
  return first.length == 0 || first.is_unseen || (first.flags & kOutOfBand) ? nullptr : &first;
}

}  // namespace

void Matcher::gather_ends() {
  std::vector<uint32_t> end_of(facts_.channels.size());
  std::vector<std::pair<uint32_t, uint32_t>> order;  // (root, channel)
  // A socket that was passed between processes (SCM_RIGHTS), or inherited before it was seen, has the same inode in
  // both.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint32_t> sockets;
  for (uint32_t index = 0; index < facts_.channels.size(); ++index) {
    uint32_t root = index;
    while (facts_.channel(root).inherited_from != kNoChannel) root = facts_.channel(root).inherited_from;
    const Channel& channel = facts_.channel(root);
    if (!channel.is_stream() && !channel.is_datagram()) continue;
    if (channel.inode)
      root = sockets.try_emplace({facts_.nodes[channel.node].host, channel.device, channel.inode}, root).first->second;
    order.emplace_back(root, index);
  }
  std::ranges::sort(order);
  uint32_t last_root = kNoChannel;
  for (auto [root, index] : order) {
    if (root != last_root) {
      ends_.emplace_back();
      ends_.back().node = facts_.channel(root).node;
      ends_.back().opened = facts_.channel(root).first_time;
      last_root = root;
    }
    StreamEnd& end = ends_.back();
    const Channel& channel = facts_.channel(index);
    end.channels.push_back(index);
    if (channel.local.known()) end.local = channel.local;
    if (channel.remote.known()) end.remote = channel.remote;
    if (channel.peer_pid) end.peer_pid = channel.peer_pid;
    if (channel.connect_event != kNoEvent) {
      end.connect_node = channel.node;
      end.connect_event = channel.connect_event;
      end.connect_time = channel.connect_time;
      end.connect_back = channel.connect_back;
    }
    if (channel.accept_event != kNoEvent) {
      end.accept_node = channel.node;
      end.accept_event = channel.accept_event;
      end.accept_time = channel.accept_time;
      end.listener = channel.listener;
    }
  }
}

StreamOrder Matcher::follow(const StreamEnd& from, const StreamEnd& to, uint64_t limit, bool to_the_end) const {
  return order_stream(
      {facts_, from.channels, to.channels, limit, to_the_end,
       [this](uint32_t a, uint64_t then, uint32_t b, uint64_t now) { return may_precede(a, then, b, now); }});
}

// Adds edges for the transfers that were placed, and counts those that were not.
void Matcher::take_over(const StreamOrder& order, EdgeKind kind) {
  const std::vector<PlacedTransfer>& receives = order.receives;
  size_t reached = 0, peek = 0;  // the first receive, and the first peek, that can still overlap with a send
  std::vector<bool> matched(receives.size());
  for (const PlacedTransfer& send : order.sends) {
    const uint32_t source = facts_.channel(send.channel).node;
    ++matched_sends_[source];
    while (reached < receives.size() && receives[reached].end() <= send.start) ++reached;
    for (size_t n = reached; n < receives.size() && receives[n].start < send.end(); ++n) {
      const uint32_t node = facts_.channel(receives[n].channel).node;
      const uint64_t begin = std::max(send.start, receives[n].start);
      const uint64_t overlap = std::min(send.end(), receives[n].end()) - begin;
      add(source, send.transfer->event, node, receives[n].transfer->event, kind, overlap, kNoEvent, false,
          {send.transfer->part, receives[n].transfer->part, begin - send.start, begin - receives[n].start});
      note_cross(source, send.transfer->time, node, receives[n].transfer->time);
      if (!matched[n]) ++matched_receives_[node];
      matched[n] = true;
    }
    for (; peek < order.peeks.size() && order.peeks[peek].start < send.end(); ++peek)
      add(source, send.transfer->event, facts_.channel(order.peeks[peek].channel).node,
          order.peeks[peek].transfer->event, kind, 0, kNoEvent, false, {}, true);
  }
  if (order.sends.empty()) return;
  for (const PlacedTransfer& send : order.skipped) ++result_.traffic[facts_.channel(send.channel).node].unplaced_sends;
  const uint64_t known = order.gave_up ? kNoLimit : order.sends.back().end();
  for (size_t n = 0; n < receives.size() && receives[n].start < known; ++n)
    if (!matched[n]) ++result_.traffic[facts_.channel(receives[n].channel).node].unplaced_receives;
}

Matcher::Verdict Matcher::follow_both(const StreamEnd& a, const StreamEnd& b, uint64_t limit) const {
  const StreamOrder forth = follow(a, b, limit, false);
  if (!forth.fits) return {false, 0};
  const StreamOrder back = follow(b, a, limit, false);
  return {back.fits, forth.verified + back.verified};
}

// Connected packets (SOCK_SEQPACKET) arrive in order. A packet is lost only if its receiver has ended.
void Matcher::follow_packets(const StreamEnd& from, const StreamEnd& to) {
  struct Packet {
    uint32_t node;
    const Transfer* transfer;
  };
  auto gather = [&](const StreamEnd& end, bool out) {
    std::vector<Packet> packets;
    for (uint32_t index : end.channels)
      for (const Transfer& transfer : out ? facts_.channel(index).out : facts_.channel(index).in)
        packets.push_back({facts_.channel(index).node, &transfer});
    std::ranges::stable_sort(packets, {}, [](const Packet& packet) { return packet.transfer->time; });
    return packets;
  };
  std::vector<Packet> sent = gather(from, true);
  size_t next = 0;
  for (const Packet& got : gather(to, false)) {
    for (size_t n = next; n < sent.size(); ++n) {
      const Transfer& send = *sent[n].transfer;
      if (!may_precede(sent[n].node, send.time, got.node, got.transfer->time)) break;
      if (send.hash != got.transfer->hash && !(got.transfer->flags & kTruncated)) continue;
      add(sent[n].node, send.event, got.node, got.transfer->event, EdgeKind::datagram, send.length, kNoEvent, false,
          {send.part, got.transfer->part, 0, 0}, got.transfer->flags & kPeek);
      if (got.transfer->flags & kPeek) break;
      ++matched_sends_[sent[n].node];
      ++matched_receives_[got.node];
      next = n + 1;
      break;
    }
  }
}

// A reader sees the end of the stream after every holder of the other end has closed it or died, and a call fails with
// ECONNRESET or EPIPE after that. A FIFO may be opened again, so it can have several ends.
void Matcher::end_of_stream(const StreamEnd& from, const StreamEnd& to, std::vector<EndSeen> Channel::*seen) {
  for (uint32_t index : to.channels) {
    const Channel& witness = facts_.channel(index);
    if ((witness.*seen).empty()) continue;
    for (uint32_t holder : from.channels) {
      const Channel& left = facts_.channel(holder);
      const std::vector<EventTime>& times = facts_.nodes[left.node].times;
      if (times.empty()) continue;
      const EndSeen died{times.size() - 1, times.back().entry};
      const EndSeen gone = left.gone_event == kNoEvent ? died : EndSeen{left.gone_event, left.gone_time};
      const EndSeen closed = left.close_event == kNoEvent ? died : EndSeen{left.close_event, left.close_time};
      if (seen == &Channel::breaks && end_seen(left.node, gone, witness.node, witness.breaks)) continue;
      end_seen(left.node, closed, witness.node, witness.*seen);
    }
  }
}

// Adds an edge from `end` to the first event that can have told of it. Returns whether there is one.
bool Matcher::end_seen(uint32_t from, const EndSeen& end, uint32_t to, const std::vector<EndSeen>& seen) {
  const auto first = std::ranges::partition_point(
      seen, [&](const EndSeen& one) { return !may_precede(from, end.time, to, one.time); });
  if (first == seen.end()) return false;
  add(from, end.event, to, first->event, EdgeKind::end_of_stream);
  return true;
}

bool Matcher::opened_in_order(const StreamEnd& a, const StreamEnd& b) const {
  auto ordered = [&](const StreamEnd& from, const StreamEnd& to) {
    return !from.is_initiator() || !to.is_acceptor() ||
           may_precede(from.connect_node, from.connect_time, to.accept_node, to.accept_time);
  };
  return ordered(a, b) && ordered(b, a);
}

void Matcher::join(StreamEnd& a, StreamEnd& b) {
  a.joined = b.joined = true;
  for (StreamEnd* end : {&a, &b})
    for (uint32_t index : end->channels) taken_[index] = true;
  bool packets = facts_.channel(a.channels.front()).is_datagram();
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (from->is_initiator() && to->is_acceptor()) {
      add(from->connect_node, from->connect_event, to->accept_node, to->accept_event, EdgeKind::connect);
      note_cross(from->connect_node, from->connect_time, to->accept_node, to->accept_time);
    }
    if (packets) follow_packets(*from, *to);
    else take_over(follow(*from, *to, kNoLimit, true), EdgeKind::stream);
    end_of_stream(*from, *to, &Channel::ends);
    end_of_stream(*from, *to, &Channel::breaks);
  }
}

void Matcher::match_socketpairs() {
  std::map<uint32_t, size_t> ends;  // by the channel that opened it
  for (size_t n = 0; n < ends_.size(); ++n) ends[ends_[n].channels.front()] = n;
  for (StreamEnd& end : ends_) {
    uint32_t twin = facts_.channel(end.channels.front()).twin;
    if (end.joined || twin == kNoChannel) continue;
    if (auto other = ends.find(twin); other != ends.end() && !ends_[other->second].joined)
      join(end, ends_[other->second]);
  }
}

void Matcher::match_pipes() {
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, StreamEnd> pipes;
  for (uint32_t index = 0; index < facts_.channels.size(); ++index) {
    const Channel& channel = facts_.channel(index);
    if (channel.kind == kChannelPipe && channel.inode != 0)
      pipes[{facts_.nodes[channel.node].host, channel.device, channel.inode}].channels.push_back(index);
  }
  for (const auto& [key, all] : pipes) {
    take_over(follow(all, all, kNoLimit, true), EdgeKind::pipe);
    StreamEnd writers;
    for (uint32_t index : all.channels)
      if (facts_.channel(index).can_write || !facts_.channel(index).out.empty()) writers.channels.push_back(index);
    end_of_stream(writers, all, &Channel::ends);
    // A write fails after every reader has gone.
    StreamEnd readers;
    for (uint32_t index : all.channels)
      if (!facts_.channel(index).can_write || !facts_.channel(index).in.empty()) readers.channels.push_back(index);
    end_of_stream(readers, writers, &Channel::breaks);
  }
}

void Matcher::match_inet_streams() {
  // A loopback address identifies an end only within its host.
  using Place = std::pair<Address, uint32_t>;
  auto place = [&](const StreamEnd& end, const Address& address) {
    return Place(address, address.is_loopback() ? facts_.nodes[end.node].host + 1 : 0);
  };
  std::map<Place, std::map<Address, EndQueue>> by_local;  // then by remote address
  std::vector<StreamEnd*> ends;
  for (StreamEnd& end : ends_)
    if (end.local.is_inet() && !end.joined && facts_.channel(end.channels.front()).is_stream()) ends.push_back(&end);
  std::ranges::stable_sort(ends, {}, [](const StreamEnd* end) { return end->opened; });
  for (StreamEnd* end : ends) by_local[place(*end, end->local)][end->remote].ends.push_back(end);
  auto agree = [&](const StreamEnd& end, const StreamEnd& other) { return follow_both(end, other, kProbeBytes).fits; };
  // Whether an initiator was closed when the acceptor got its connection: then another one, from the same port, is
  // more likely to be the other end.
  auto was_closed = [&](const StreamEnd& initiator, const StreamEnd& acceptor) {
    const Channel& channel = facts_.channel(initiator.channels.front());
    return channel.gone_event != kNoEvent && acceptor.is_acceptor() &&
           may_precede(channel.node, channel.gone_time, acceptor.accept_node, acceptor.accept_time);
  };
  auto find_in = [&](StreamEnd* end, EndQueue& queue, auto&& agree) {
    StreamEnd* found = nullptr;
    size_t tried = 0;
    for (size_t n = queue.next(0); n < queue.ends.size(); n = queue.next(n + 1)) {
      StreamEnd* other = queue.ends[n];
      if (other == end) continue;
      if (!opened_in_order(*end, *other) || ++tried > kMostEnds || !agree(*end, *other)) continue;
      if (!found) found = other;
      if (!other->remote.known() && was_closed(*other, *end)) continue;
      return other;
    }
    return found;
  };
  auto pair_up = [&](auto&& queues_of, auto&& agree) {
    for (StreamEnd* end : ends) {
      if (end->joined || !end->remote.known()) continue;
      auto there = by_local.find(place(*end, end->remote));
      if (there == by_local.end()) continue;
      StreamEnd* first = nullptr;
      for (EndQueue* queue : queues_of(*end, there->second))
        if (StreamEnd* found = find_in(end, *queue, agree); found && (!first || found->opened < first->opened))
          first = found;
      if (first) join(*end, *first);
    }
  };
  using Queues = std::vector<EndQueue*>;
  auto at = [](std::map<Address, EndQueue>& queues, const Address& remote) {
    auto found = queues.find(remote);
    return found == queues.end() ? Queues{} : Queues{&found->second};
  };
  by_ = MatchedBy::address;
  pair_up([&](StreamEnd& end, auto& queues) { return at(queues, end.local); }, agree);
  // The peer's address is unknown if the channel was described while connect(2) was in progress.
  auto agree_with_initiator = [&](const StreamEnd& end, const StreamEnd& other) {
    return other.is_initiator() && agree(end, other);
  };
  pair_up([&](StreamEnd&, auto& queues) { return at(queues, {}); }, agree_with_initiator);
  // Two ends that name each other, and that no other end names, belong together even if their bytes disagree: then a
  // process that is not recorded wrote or read some of the bytes.
  auto alone = [&](StreamEnd& end, auto& queues) {
    const size_t namesakes = by_local.at(place(end, end.local)).at(end.remote).ends.size();
    Queues queue = at(queues, end.local);
    return namesakes == 1 && !queue.empty() && queue.front()->ends.size() == 1 ? queue : Queues{};
  };
  pair_up(alone, [&](const StreamEnd& end, const StreamEnd& other) {
    return follow(end, other, kTranslatedBytes, true).verified + follow(other, end, kTranslatedBytes, true).verified >=
           kLeastStream;
  });
  // If the destination address was rewritten on the way (DNAT), the acceptor's remote address is still the initiator's
  // own.
  by_ = MatchedBy::one_address;
  auto any = [](StreamEnd& end, auto& queues) {
    Queues all;
    for (auto& [remote, queue] : queues)
      if (end.is_acceptor()) all.push_back(&queue);
    return all;
  };
  pair_up(any, agree_with_initiator);
}

// When the connection was requested or accepted: on the reference line if the hosts can be compared, otherwise on the
// clock of the end's own host.
int64_t Matcher::opened_ns(const StreamEnd& end) const {
  if (end.is_initiator()) return reference_ns(end.connect_node, end.connect_time);
  if (end.is_acceptor()) return reference_ns(end.accept_node, end.accept_time);
  return reference_ns(end.node, end.opened);
}

// Pairs ends whose addresses were rewritten by an address translator or load balancer, by their contents. Among
// connections with equal contents the first requested is paired with the first accepted, since nothing tells them
// apart.
void Matcher::match_translated() {
  std::vector<StreamEnd*> left;
  bool initiators = false, acceptors = false;
  for (StreamEnd& end : ends_) {
    if (end.joined || !facts_.channel(end.channels.front()).is_stream() || !end.local.is_inet()) continue;
    left.push_back(&end);
    initiators |= end.is_initiator();
    acceptors |= end.is_acceptor();
  }
  if (!initiators || !acceptors) return;
  std::ranges::stable_sort(left, {}, [&](const StreamEnd* end) { return opened_ns(*end); });
  std::map<std::pair<uint64_t, uint64_t>, std::vector<StreamEnd*>> by_first_chunk;  // by (length, hash)
  std::set<uint64_t> lengths;
  constexpr size_t kMaxLengths = 64, kMaxCandidates = 16;
  for (StreamEnd* end : left) {
    for (uint32_t index : end->channels) {
      const Transfer* first = first_send(facts_.channel(index));
      if (!first || (lengths.size() >= kMaxLengths && !lengths.contains(first->length))) continue;
      lengths.insert(first->length);
      by_first_chunk[{first->length, first->hash}].push_back(end);
    }
  }
  for (StreamEnd* end : left) {
    ReceivedBytes received(facts_, end->channels);
    StreamEnd* best = nullptr;
    uint64_t most = 0;  // bytes verified for the best candidate; the first opened wins ties
    size_t tried = 0;
    for (uint64_t length : lengths) {
      auto hash = end->joined ? std::nullopt : received.hash(0, length, 0);
      auto found = hash ? by_first_chunk.find({length, *hash}) : by_first_chunk.end();
      if (found == by_first_chunk.end()) continue;
      for (StreamEnd* other : found->second) {
        bool roles = (end->is_initiator() && other->is_acceptor()) || (other->is_initiator() && end->is_acceptor());
        if (!roles || other->joined || other == end || !opened_in_order(*end, *other) || ++tried > kMaxCandidates)
          continue;
        Verdict verdict = follow_both(*end, *other, kTranslatedBytes);
        if (!verdict.fits || verdict.verified < kLeastStream) continue;
        if (is_comparable(end->node, other->node) && std::abs(opened_ns(*end) - opened_ns(*other)) > kLongestOpeningNs)
          continue;
        if (best && verdict.verified <= most) continue;
        best = other;
        most = verdict.verified;
      }
    }
    if (best) join(*end, *best);
  }
}

}  // namespace friday
