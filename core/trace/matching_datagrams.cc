// Matches datagrams: by ports, length and hash, each receive to the earliest send that is not matched yet and that time
// allows. The network may lose, duplicate and reorder datagrams, and may rewrite addresses; so several passes run, from
// strict to loose, each over what the previous one left.
#include <xxhash.h>

#include <algorithm>
#include <unordered_map>

#include "core/trace/matcher.h"

namespace friday {

using namespace format;

namespace {

// An older datagram counts as lost (twice the maximum segment lifetime, RFC 9293).
constexpr int64_t kLongestFlightNs = 240'000'000'000;
// Shorter datagrams are too common to be matched by content alone.
constexpr uint64_t kLeastDatagram = 8;

// How many identical sends are examined for a receive that may be a duplicate.
constexpr size_t kMostTried = 1000;

struct Packet {
  uint32_t node, channel;
  const Transfer* transfer;
  const Address* source;
  const Address* destination;
  int64_t ns;
  bool done = false;
};

uint64_t place_of(const Address& address) {
  return address.is_inet() ? address.port : XXH3_64bits(address.name.data(), address.name.size());
}

struct Key {
  uint64_t hash, length, destination, source;
  auto operator<=>(const Key&) const = default;
};

enum class Pass { strict, any_source, content };

Key key_of(const Packet& packet, Pass pass) {
  Key key{packet.transfer->hash, packet.transfer->length, 0, 0};
  if (pass != Pass::content) key.destination = place_of(*packet.destination);
  if (pass == Pass::strict) key.source = place_of(*packet.source);
  return key;
}

struct Sorted {
  Key key;
  Packet* packet;
};

std::vector<Sorted> sorted(std::vector<Packet>& packets, Pass pass) {
  std::vector<Sorted> list;
  for (Packet& packet : packets)
    if (!packet.done && (pass != Pass::content || packet.transfer->length >= kLeastDatagram))
      list.push_back({key_of(packet, pass), &packet});
  std::ranges::stable_sort(list, [](const Sorted& a, const Sorted& b) {
    return a.key != b.key ? a.key < b.key : a.packet->ns < b.packet->ns;
  });
  return list;
}

// The sends of a group that are still to be matched, in order. A union-find structure skips the matched ones.
class OpenList {
 public:
  explicit OpenList(size_t size) : next_(size + 1) {
    for (size_t n = 0; n <= size; ++n) next_[n] = n;
  }
  // The first unmatched send at or after `n`; the total number of sends if there is none.
  size_t next(size_t n) {
    while (next_[n] != n) n = next_[n] = next_[next_[n]];
    return n;
  }
  void close(size_t n) { next_[n] = n + 1; }

 private:
  std::vector<size_t> next_;
};

// A socket bound to the wildcard address does not know its own address. Datagrams with unique contents reveal it: the
// destination of such a datagram is an address of the receiver's socket, its source one of the sender's.
class KnownAddresses {
 public:
  void learn(uint32_t channel, const Address* address) {
    if (address->known() && !says_no(channel, *address, true)) return;
    if (address->known()) known_[channel].push_back(address);
  }
  // True if only other addresses are known for the socket. `strangers` is returned for a socket without any known
  // address.
  bool says_no(uint32_t channel, const Address& address, bool strangers = false) const {
    auto found = known_.find(channel);
    if (found == known_.end()) return strangers;
    return std::ranges::none_of(found->second, [&](const Address* own) { return own == &address || *own == address; });
  }

 private:
  std::unordered_map<uint32_t, std::vector<const Address*>> known_;
};

// Calls f(sends, receives) for each key that occurs in both lists. Both lists must be sorted.
template <typename F>
void for_each_group(std::span<Sorted> sends, std::span<Sorted> receives, F f) {
  size_t s = 0, r = 0;
  while (s < sends.size() && r < receives.size()) {
    if (sends[s].key < receives[r].key) {
      ++s;
    } else if (receives[r].key < sends[s].key) {
      ++r;
    } else {
      size_t s_end = s, r_end = r;
      while (s_end < sends.size() && sends[s_end].key == sends[s].key) ++s_end;
      while (r_end < receives.size() && receives[r_end].key == receives[r].key) ++r_end;
      f(sends.subspan(s, s_end - s), receives.subspan(r, r_end - r));
      s = s_end;
      r = r_end;
    }
  }
}

}  // namespace

void Matcher::match_datagrams(Purpose purpose) {
  std::vector<Packet> sent, got;
  for (uint32_t index = 0; index < facts_.channels.size(); ++index) {
    const Channel& channel = facts_.channel(index);
    if (!channel.is_datagram() || taken_[index]) continue;
    auto named = [&](const Transfer& transfer) {
      return transfer.peer ? &facts_.addresses[transfer.peer] : &channel.remote;
    };
    for (const Transfer& transfer : channel.out)
      sent.push_back(
          {channel.node, index, &transfer, &channel.local, named(transfer), reference_ns(channel.node, transfer.time)});
    for (const Transfer& transfer : channel.in)
      if (!(transfer.flags & kTruncated))
        got.push_back({channel.node, index, &transfer, named(transfer), &channel.local,
                       reference_ns(channel.node, transfer.time)});
  }

  KnownAddresses known;
  auto compatible = [&](const Packet& send, const Packet& receive, Pass pass) {
    bool same_host = facts_.same_host(send.node, receive.node);
    if (!may_precede(send.node, send.transfer->time, receive.node, receive.transfer->time)) return false;
    if (!send.destination->is_inet() && !same_host) return false;
    if (pass == Pass::content) return true;
    if (!could_equal(*send.destination, *receive.destination) || (send.destination->is_loopback() && !same_host))
      return false;
    if (!send.destination->is_many() && known.says_no(receive.channel, *send.destination)) return false;
    if (pass == Pass::any_source) return true;
    if (known.says_no(send.channel, *receive.source)) return false;
    return could_equal(*send.source, *receive.source) && (same_host || !receive.source->is_loopback());
  };
  auto connect = [&](Packet& send, Packet& receive, uint64_t earliest, bool duplicate) {
    add(send.node, send.transfer->event, receive.node, receive.transfer->event, EdgeKind::datagram,
        send.transfer->length, earliest, duplicate, {send.transfer->part, receive.transfer->part, 0, 0},
        receive.transfer->flags & kPeek);
    receive.done = true;
    if (receive.transfer->flags & kPeek) return;
    if (!send.done) ++matched_sends_[send.node];
    ++matched_receives_[receive.node];
    send.done = true;
  };
  auto is_single = [&](std::span<Sorted> sends, std::span<Sorted> receives, Pass pass) {
    return sends.size() == 1 && receives.size() == 1 && compatible(*sends[0].packet, *receives[0].packet, pass);
  };
  auto learn = [&](std::span<Sorted> sends, std::span<Sorted> receives) {
    const Packet &send = *sends[0].packet, &receive = *receives[0].packet;
    if (!is_single(sends, receives, Pass::strict)) return;
    if (!send.destination->is_many()) known.learn(receive.channel, send.destination);
    known.learn(send.channel, receive.source);
    if (purpose == Purpose::learn_by_address)
      note_cross(send.node, send.transfer->time, receive.node, receive.transfer->time);
  };
  auto learn_by_content = [&](std::span<Sorted> sends, std::span<Sorted> receives) {
    const Packet &send = *sends[0].packet, &receive = *receives[0].packet;
    if (is_single(sends, receives, Pass::content) && !is_comparable(send.node, receive.node))
      note_cross(send.node, send.transfer->time, receive.node, receive.transfer->time);
  };
  const bool one_clock = std::ranges::all_of(result_.hosts, [](const HostAlignment& host) { return host.group == 0; });
  auto match_group = [&](std::span<Sorted> sends, std::span<Sorted> receives, Pass pass) {
    std::unordered_map<uint32_t, uint64_t> first_of;  // channel -> its first identical send
    for (const Sorted& send : sends) first_of.try_emplace(send.packet->channel, send.packet->transfer->event);
    OpenList open(sends.size());
    for (const Sorted& entry : receives) {
      Packet& receive = *entry.packet;
      for (size_t n = open.next(0); n < sends.size() && !receive.done; n = open.next(n + 1)) {
        Packet& send = *sends[n].packet;
        bool lost = is_comparable(send.node, receive.node) && send.ns < receive.ns - kLongestFlightNs;
        if (!send.done && !lost && compatible(send, receive, pass))
          connect(send, receive, first_of[send.channel], false);
        if (send.done || (lost && one_clock)) open.close(n);
      }
      // A duplicate made by the network, or one of several receivers of a multicast: placed after the first compatible
      // send. The looser passes do this only for multicast, whose sender may be known by the address of another of its
      // interfaces.
      for (size_t n = 0; n < std::min(sends.size(), kMostTried) && !receive.done && pass != Pass::content; ++n)
        if ((pass == Pass::strict || sends[n].packet->destination->is_many()) &&
            compatible(*sends[n].packet, receive, pass))
          connect(*sends[n].packet, receive, first_of[sends[n].packet->channel], true);
    }
  };

  for (Pass pass : {Pass::strict, Pass::any_source, Pass::content}) {
    std::vector<Sorted> sends = sorted(sent, pass), receives = sorted(got, pass);
    if (purpose == Purpose::learn_by_content) {
      if (pass == Pass::content) for_each_group(sends, receives, learn_by_content);
      continue;
    }
    if (pass == Pass::strict) for_each_group(sends, receives, learn);
    if (purpose == Purpose::learn_by_address) return;
    by_ = pass == Pass::strict       ? MatchedBy::address
          : pass == Pass::any_source ? MatchedBy::one_address
                                     : MatchedBy::content;
    for_each_group(sends, receives,
                   [&](std::span<Sorted> some, std::span<Sorted> others) { match_group(some, others, pass); });
  }
}

}  // namespace friday
