// Matches datagrams: by ports, length and hash, each receive to the earliest send that is not matched yet and that time
// allows. The network may lose, duplicate and reorder datagrams, and may rewrite addresses; so several passes run, from
// strict to loose, each over what the previous one left. Addresses decide where they can: a looser pass may find that
// an address was rewritten, but not that it belonged to another recorded socket. Where several sockets may have sent a
// datagram and nothing tells which of them has the address that the receiver saw, the receive stays unmatched.
//
// Sends of one socket to one address are a flow, and so are receives of one socket from one address. What addresses say
// is asked once for two flows; within them times rise, so the send of a receive is found by bisection.
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/trace/datagram_addresses.h"
#include "core/trace/matcher.h"

namespace friday {

using namespace format;
using Fit = SocketAddresses::Fit;

namespace {

// An older datagram counts as lost (twice the maximum segment lifetime, RFC 9293).
constexpr int64_t kLongestFlightNs = 240'000'000'000;
// Shorter datagrams are too common to be matched by content alone.
constexpr uint64_t kLeastDatagram = 8;
// How many flows with equal contents the looser passes examine for one flow of receives.
constexpr size_t kMostTried = 1000;
// Sockets whose addresses are found by elimination reveal those of others; so often it is tried again.
constexpr int kMostRounds = 100;

struct Packet {
  uint32_t node, channel;
  const Transfer* transfer;
  const Address* source;
  const Address* destination;
  int64_t ns;
  bool to_many = false;
  bool done = false;  // a send: a receive has it; a receive: its send was found, or cannot be told from others
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
    if ((!packet.done || packet.to_many) && (pass != Pass::content || packet.transfer->length >= kLeastDatagram))
      list.push_back({key_of(packet, pass), &packet});
  std::ranges::stable_sort(list, [](const Sorted& a, const Sorted& b) {
    return a.key != b.key ? a.key < b.key : a.packet->ns < b.packet->ns;
  });
  return list;
}

struct SendFlow {
  uint32_t node, channel;
  const Address* destination;
  bool to_many;
  std::vector<Packet*> sends;  // by time
  OpenList open;               // those that are still to be matched
};

// A flow of sends from which a receive may have come.
struct Candidate {
  SendFlow* flow;
  Fit fit;
  bool comparable;  // the times of both ends
  size_t next = 0;  // of a flow to many: the first send that the receiver has not got yet
};

struct ReceiveFlow {
  Packet* first = nullptr;
  std::vector<Candidate> candidates;
};

// The flows of the datagrams with one key.
struct Group {
  Group(std::span<Sorted> sent, std::span<Sorted> got) {
    std::map<std::pair<uint32_t, const Address*>, size_t> seen;
    for (const Sorted& entry : sent) {
      Packet& send = *entry.packet;
      auto [place, is_new] = seen.try_emplace({send.channel, send.destination}, sends.size());
      if (is_new) sends.push_back({send.node, send.channel, send.destination, send.to_many, {}, {}});
      sends[place->second].sends.push_back(&send);
      first_of.try_emplace(send.channel, send.transfer->event);
    }
    for (SendFlow& flow : sends) by_destination[{*flow.destination, flow.to_many}].push_back(&flow);
    for (SendFlow& flow : sends) {
      flow.open.resize(flow.sends.size());
      for (size_t n = 0; n < flow.sends.size(); ++n)
        if (flow.sends[n]->done && !flow.to_many) flow.open.close(n);
    }
    seen.clear();
    for (const Sorted& entry : got) {
      auto [place, is_new] = seen.try_emplace({entry.packet->channel, entry.packet->source}, receives.size());
      if (is_new) receives.push_back({entry.packet, {}});
      flow_of.push_back(place->second);
    }
  }

  std::vector<SendFlow> sends;
  std::map<std::pair<Address, bool>, std::vector<SendFlow*>> by_destination;  // with whether it is to many
  std::vector<ReceiveFlow> receives;
  std::vector<size_t> flow_of;                      // by receive: its flow
  std::unordered_map<uint32_t, uint64_t> first_of;  // channel -> its first identical send
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

// One run of match_datagrams().
class DatagramMatcher {
 public:
  DatagramMatcher(Matcher& matcher, Matcher::Purpose purpose)
      : matcher_(matcher), facts_(matcher.facts_), purpose_(purpose), addresses_(facts_, matcher.ends_) {}
  void run();

 private:
  struct Choice {
    Candidate* from = nullptr;
    size_t send = 0;
    bool duplicate = false;
    const Packet& packet() const { return *from->flow->sends[send]; }
  };
  // What the candidates of one degree of certainty offer for a receive: the earliest send that no receive has, the
  // earliest that one has, and whether those of the first kind come from several sockets.
  struct Offer {
    std::optional<Choice> open, taken;
    bool several = false;
  };

  // What receives that only one socket can have sent tell of its address.
  struct Clue {
    uint32_t sender = 0;
    const Packet* receive = nullptr;       // the first one
    const Address* destination = nullptr;  // to which all were sent, if it is one
    uint64_t count = 0;                    // how many receives tell it
  };
  using Clues = std::map<std::pair<uint32_t, uint32_t>, std::map<Address, Clue>>;  // by sending and receiving socket

  void gather();
  Fit fit(const SendFlow& flow, const Packet& receive, Pass pass, bool unique) const;
  bool has_met(const SendFlow& flow, const Packet& receive, bool unique) const;
  bool is_timely(const SendFlow& flow, size_t send, const Packet& receive) const;
  std::vector<Candidate> candidates(Group& group, const Packet& receive, Pass pass) const;
  static size_t first_in_flight(const Candidate& candidate, const Packet& receive);
  Offer offer(std::vector<Candidate>& candidates, const Packet& receive, Fit fit, bool only_open = false);
  bool is_over(uint32_t channel, const Packet& receive) const;
  bool is_owned(const Packet& receive) const;
  void learn_from_singles(std::span<Sorted> sends, std::span<Sorted> receives);
  void eliminate(std::span<Sorted> sends, std::span<Sorted> receives);
  bool gather_clues(std::span<Sorted> sends, std::span<Sorted> receives, Clues& clues) const;
  bool gather_clue(const ReceiveFlow& flow, const Packet& receive, Clues& clues) const;
  bool learn_from(const Clues& clues);
  void match_group(std::span<Sorted> sends, std::span<Sorted> receives, Pass pass);
  std::optional<Choice> choose(std::vector<Candidate>& candidates, Packet& receive, Pass pass);
  void connect(const Group& group, const Choice& choice, Packet& receive, Pass pass);

  Matcher& matcher_;
  const FactSet& facts_;
  const Matcher::Purpose purpose_;
  SocketAddresses addresses_;
  std::vector<Packet> sent_, got_;
  // Sockets of which the second has seen the first one's own address, and to what the first one sent then.
  std::map<std::pair<uint32_t, uint32_t>, std::set<Address>> met_;
};

void DatagramMatcher::gather() {
  for (uint32_t index = 0; index < facts_.channels.size(); ++index) {
    const Channel& channel = facts_.channel(index);
    if (!channel.is_datagram() || matcher_.taken_[index]) continue;
    auto named = [&](const Transfer& transfer) {
      return transfer.peer ? &facts_.addresses[transfer.peer] : &channel.remote;
    };
    auto ns = [&](const Transfer& transfer) { return matcher_.reference_ns(channel.node, transfer.time); };
    for (const Transfer& transfer : channel.out) {
      const Address* to = named(transfer);
      sent_.push_back(
          {channel.node, index, &transfer, &channel.local, to, ns(transfer), addresses_.is_many(index, *to)});
    }
    for (const Transfer& transfer : channel.in)
      if (!(transfer.flags & kTruncated))
        got_.push_back({channel.node, index, &transfer, named(transfer), &channel.local, ns(transfer)});
  }
}

// Whether a receiver knows the sender's own address, so that another one is somebody else's. A machine that has several
// addresses uses the same one to the same destination, but maybe another one to another destination.
bool DatagramMatcher::has_met(const SendFlow& flow, const Packet& receive, bool unique) const {
  const auto met = met_.find({addresses_.socket(flow.channel), addresses_.socket(receive.channel)});
  return met != met_.end() && (!unique || met->second.contains(*flow.destination));
}

// Whether addresses allow that a receive came from a flow. `unique`: there is one datagram with these contents.
Fit DatagramMatcher::fit(const SendFlow& flow, const Packet& receive, Pass pass, bool unique) const {
  const Address &to = *flow.destination, &from = *receive.source;
  const bool same_host = facts_.same_host(flow.node, receive.node);
  if (!same_host && (!to.is_inet() || to.is_loopback() || from.is_loopback())) return Fit::none;
  if (pass != Pass::content) {
    if (!could_equal(to, *receive.destination)) return Fit::none;
    const Fit destination = flow.to_many ? Fit::sure : addresses_.fit_destination(receive.channel, to);
    const Fit source = pass == Pass::strict ? addresses_.fit(flow.channel, from) : Fit::sure;
    if (pass == Pass::strict || destination == Fit::none) return std::min(source, destination);
  } else if (to.is_inet() && addresses_.belongs_to_another(receive.channel, to)) {
    return Fit::none;
  }
  if (!from.known()) return Fit::sure;
  if (!from.is_inet())
    return pass == Pass::content || could_equal(facts_.channel(flow.channel).local, from) ? Fit::sure : Fit::none;
  // The source was rewritten on the way: not to the address of another socket, not only in one of several messages
  // between the same two, and not on one machine, except by a proxy there, which changes the destination too.
  if (addresses_.belongs_to_another(flow.channel, from) || has_met(flow, receive, unique)) return Fit::none;
  const bool own_machine = from.is_loopback() || addresses_.is_neighbour(flow.channel, from);
  return own_machine && could_equal(to, *receive.destination) ? Fit::none : Fit::sure;
}

bool DatagramMatcher::is_timely(const SendFlow& flow, size_t send, const Packet& receive) const {
  return matcher_.may_precede(flow.node, flow.sends[send]->transfer->time, receive.node, receive.transfer->time);
}

std::vector<Candidate> DatagramMatcher::candidates(Group& group, const Packet& receive, Pass pass) const {
  std::vector<Candidate> list;
  const bool unique = group.flow_of.size() == 1 && group.sends.size() == 1 && group.sends[0].sends.size() == 1;
  auto examine = [&](SendFlow& flow) {
    if (const Fit found = fit(flow, receive, pass, unique); found != Fit::none)
      list.push_back({&flow, found, matcher_.is_comparable(flow.node, receive.node)});
  };
  if (pass != Pass::strict) {
    for (SendFlow& flow : std::span(group.sends).first(std::min(group.sends.size(), kMostTried))) examine(flow);
    return list;
  }
  for (auto& [to, flows] : group.by_destination) {
    const auto& [address, to_many] = to;
    if (!could_equal(address, *receive.destination)) continue;
    if (!to_many && addresses_.fit_destination(receive.channel, address) == Fit::none) continue;
    for (SendFlow* flow : flows) examine(*flow);
  }
  std::ranges::sort(list, {}, &Candidate::flow);  // as they were first sent
  return list;
}

// The first send that does not count as lost.
size_t DatagramMatcher::first_in_flight(const Candidate& candidate, const Packet& receive) {
  if (!candidate.comparable) return 0;
  const std::vector<Packet*>& sends = candidate.flow->sends;
  return static_cast<size_t>(std::ranges::lower_bound(sends, receive.ns - kLongestFlightNs, {}, &Packet::ns) -
                             sends.begin());
}

DatagramMatcher::Offer DatagramMatcher::offer(std::vector<Candidate>& candidates, const Packet& receive, Fit fit,
                                              bool only_open) {
  Offer offer;
  auto earlier = [](std::optional<Choice>& best, const Choice& choice) {
    if (!best || choice.packet().ns < best->packet().ns) best = choice;
  };
  for (Candidate& candidate : candidates) {
    if (candidate.fit != fit || (only_open && is_over(candidate.flow->channel, receive))) continue;
    SendFlow& flow = *candidate.flow;
    const size_t first = first_in_flight(candidate, receive);
    if (first == flow.sends.size() || !is_timely(flow, first, receive)) continue;
    earlier(offer.taken, {&candidate, first, true});
    const size_t open = flow.to_many ? std::max(first, candidate.next) : flow.open.next(first);
    if (open == flow.sends.size() || !is_timely(flow, open, receive)) continue;
    offer.several |=
        offer.open && addresses_.socket(offer.open->from->flow->channel) != addresses_.socket(flow.channel);
    earlier(offer.open, {&candidate, open, false});
  }
  return offer;
}

// Whether the socket of a sender was closed, by all that shared it, before a receive.
bool DatagramMatcher::is_over(uint32_t channel, const Packet& receive) const {
  return std::ranges::all_of(addresses_.views(channel), [&](uint32_t view) {
    const Channel& socket = facts_.channel(view);
    const std::vector<EventTime>& times = facts_.nodes[socket.node].times;
    const uint64_t end = socket.close_event != kNoEvent ? socket.close_time : times.empty() ? 0 : times.back().back;
    return matcher_.reference_ns(socket.node, end) < receive.ns;
  });
}

// Whether a recorded socket that was open then is known to have the address that a receive shows.
bool DatagramMatcher::is_owned(const Packet& receive) const {
  return std::ranges::any_of(addresses_.owners(receive.channel, *receive.source),
                             [&](uint32_t owner) { return !is_over(owner, receive); });
}

// Datagrams with unique contents show what the two ends call each other. Of several addresses that one socket has for
// another the one that most messages show is right, and so are those that two messages to one destination show: a
// machine may have several. The others may be those of senders that were not recorded.
void DatagramMatcher::learn_from_singles(std::span<Sorted> sends, std::span<Sorted> receives) {
  struct Single {
    const Packet *send, *receive;
  };
  using Pair = std::pair<uint32_t, uint32_t>;
  std::vector<Single> singles;
  std::map<std::pair<Pair, const Address*>, uint64_t> shown;
  std::map<std::tuple<Pair, const Address*, const Address*>, uint64_t> together;  // with the destination
  std::map<Pair, std::pair<const Address*, uint64_t>> most;
  auto pair_of = [&](const Single& single) {
    return Pair(addresses_.socket(single.send->channel), addresses_.socket(single.receive->channel));
  };
  for_each_group(sends, receives, [&](std::span<Sorted> some, std::span<Sorted> others) {
    if (some.size() != 1 || others.size() != 1) return;
    Packet &send = *some[0].packet, &receive = *others[0].packet;
    const SendFlow flow{send.node, send.channel, send.destination, send.to_many, {&send}, {}};
    if (fit(flow, receive, Pass::strict, true) == Fit::none || !is_timely(flow, 0, receive)) return;
    const Pair pair = pair_of(singles.emplace_back(&send, &receive));
    ++together[{pair, receive.source, send.destination}];
    const uint64_t count = ++shown[{pair, receive.source}];
    if (auto& best = most[pair]; count > best.second) best = {receive.source, count};
  });
  for (const Single& single : singles) {
    const Pair pair = pair_of(single);
    if (!(*most[pair].first == *single.receive->source) &&
        together[{pair, single.receive->source, single.send->destination}] < 2)
      continue;
    addresses_.learn(single.send->channel, *single.receive->source);
    if (!single.send->to_many) addresses_.learn(single.receive->channel, *single.send->destination);
    if (purpose_ == Matcher::Purpose::learn_by_address)
      matcher_.note_cross(single.send->node, single.send->transfer->time, single.receive->node,
                          single.receive->transfer->time);
  }
}

// Notes what a receive tells that only one socket can have sent. Returns whether more may be learned of it later.
bool DatagramMatcher::gather_clue(const ReceiveFlow& flow, const Packet& receive, Clues& clues) const {
  const SendFlow* only = nullptr;
  bool one_destination = true;
  for (const Candidate& candidate : flow.candidates) {
    const size_t first = first_in_flight(candidate, receive);
    if (first == candidate.flow->sends.size() || !is_timely(*candidate.flow, first, receive)) continue;
    if (candidate.fit == Fit::sure) return false;
    if (only && addresses_.socket(only->channel) != addresses_.socket(candidate.flow->channel)) return true;
    one_destination &= !only || *only->destination == *candidate.flow->destination;
    only = candidate.flow;
  }
  if (!only || is_owned(receive)) return false;
  const auto pair = std::pair(addresses_.socket(only->channel), addresses_.socket(receive.channel));
  auto [place, is_new] = clues[pair].try_emplace(*receive.source);
  Clue& clue = place->second;
  const Address* destination = one_destination && !only->to_many ? only->destination : nullptr;
  if (is_new) clue = {only->channel, &receive, destination, 0};
  if (!destination || !clue.destination || !(*clue.destination == *destination)) clue.destination = nullptr;
  ++clue.count;
  return true;
}

bool DatagramMatcher::gather_clues(std::span<Sorted> sends, std::span<Sorted> receives, Clues& clues) const {
  Group group(sends, receives);
  for (ReceiveFlow& flow : group.receives) {
    flow.candidates = candidates(group, *flow.first, Pass::strict);
    if (std::ranges::none_of(flow.candidates, [](const Candidate& one) { return one.fit == Fit::possible; }))
      flow.candidates.clear();
  }
  bool more = false;
  for (size_t n = 0; n < receives.size(); ++n)
    if (const ReceiveFlow& flow = group.receives[group.flow_of[n]]; !flow.candidates.empty())
      more |= gather_clue(flow, *receives[n].packet, clues);
  return more;
}

// A socket that is not recorded may have sent what a recorded one sent too, and was lost. Then a receiver seems to see
// two addresses of one socket: the one that more receives show is right, and none if there is no such one.
bool DatagramMatcher::learn_from(const Clues& clues) {
  std::vector<std::pair<const Address*, const Clue*>> most;
  for (const auto& [pair, addresses] : clues) {
    for (bool loopback : {false, true}) {
      std::pair<const Address*, const Clue*> best;
      bool alone = false;
      for (const auto& [address, clue] : addresses) {
        if (address.is_loopback() != loopback || (best.second && clue.count < best.second->count)) continue;
        alone = !best.second || clue.count > best.second->count;
        best = {&address, &clue};
      }
      if (alone) most.push_back(best);
    }
  }
  std::ranges::stable_sort(most, std::greater{}, [](const auto& one) { return one.second->count; });
  bool learned = false;
  for (const auto& [address, clue] : most) {
    if (addresses_.fit(clue->sender, *address) != Fit::possible || is_owned(*clue->receive)) continue;
    addresses_.learn(clue->sender, *address);
    if (clue->destination) addresses_.learn(clue->receive->channel, *clue->destination);
    learned = true;
  }
  return learned;
}

// Finds the addresses of sockets that nothing unique was sent from: a receive that only one of them can have sent shows
// its address, and that it is not another's. What is known of one then tells of others.
void DatagramMatcher::eliminate(std::span<Sorted> sends, std::span<Sorted> receives) {
  std::vector<std::pair<std::span<Sorted>, std::span<Sorted>>> open;
  for_each_group(sends, receives, [&](std::span<Sorted> some, std::span<Sorted> others) {
    if (some.size() > 1 || others.size() > 1) open.emplace_back(some, others);
  });
  for (int round = 0; round < kMostRounds; ++round) {
    Clues clues;
    std::erase_if(open, [&](const auto& group) { return !gather_clues(group.first, group.second, clues); });
    if (!learn_from(clues)) return;
  }
}

void DatagramMatcher::connect(const Group& group, const Choice& choice, Packet& receive, Pass pass) {
  SendFlow& flow = *choice.from->flow;
  Packet& send = *flow.sends[choice.send];
  matcher_.add(send.node, send.transfer->event, receive.node, receive.transfer->event, EdgeKind::datagram,
               send.transfer->length, group.first_of.at(send.channel), choice.duplicate || send.done,
               {send.transfer->part, receive.transfer->part, 0, 0}, receive.transfer->flags & kPeek);
  receive.done = true;
  if (pass == Pass::strict && receive.source->known())
    met_[{addresses_.socket(send.channel), addresses_.socket(receive.channel)}].insert(*flow.destination);
  if (receive.transfer->flags & kPeek) return;
  if (!send.done) ++matcher_.matched_sends_[send.node];
  ++matcher_.matched_receives_[receive.node];
  send.done = true;
  if (flow.to_many) choice.from->next = std::max(choice.from->next, choice.send + 1);
  else flow.open.close(choice.send);
}

// The send of a receive. Who is known to have the source's address comes first. Where its socket was closed, another
// may have got the address since. A send that a receive has already may have been duplicated by the network.
std::optional<DatagramMatcher::Choice> DatagramMatcher::choose(std::vector<Candidate>& candidates, Packet& receive,
                                                               Pass pass) {
  Offer sure = offer(candidates, receive, Fit::sure), possible = offer(candidates, receive, Fit::possible);
  if (pass != Pass::strict)
    return sure.open ? sure.open : sure.taken && sure.taken->packet().to_many ? sure.taken : std::nullopt;
  // Several sockets can have one address, one after the other or by SO_REUSEPORT.
  if (sure.several && receive.source->is_inet()) {
    if (const Offer open = offer(candidates, receive, Fit::sure, true); open.open) sure = open;
    if (sure.several) {
      receive.done = true;
      return std::nullopt;
    }
  }
  if ((possible.open || possible.taken) && is_owned(receive)) possible = {};
  const std::optional<Choice> known = sure.open ? sure.open : sure.taken;
  if (known && !is_over(known->from->flow->channel, receive)) return known;
  if (sure.open && !possible.open) return sure.open;
  if (possible.open && (sure.open || possible.several)) {
    receive.done = true;  // the looser passes know even less
    return std::nullopt;
  }
  return possible.open ? possible.open : sure.taken ? sure.taken : possible.taken;
}

void DatagramMatcher::match_group(std::span<Sorted> sends, std::span<Sorted> receives, Pass pass) {
  Group group(sends, receives);
  for (ReceiveFlow& flow : group.receives) flow.candidates = candidates(group, *flow.first, pass);
  for (size_t n = 0; n < receives.size(); ++n) {
    Packet& receive = *receives[n].packet;
    if (const auto choice = choose(group.receives[group.flow_of[n]].candidates, receive, pass))
      connect(group, *choice, receive, pass);
  }
}

void DatagramMatcher::run() {
  using Purpose = Matcher::Purpose;
  gather();
  if (purpose_ != Purpose::learn_by_content) {
    std::vector<Sorted> sends = sorted(sent_, Pass::strict), receives = sorted(got_, Pass::strict);
    learn_from_singles(sends, receives);
    if (purpose_ == Purpose::learn_by_address) return;
    eliminate(sends, receives);
  }
  for (Pass pass : {Pass::strict, Pass::any_source, Pass::content}) {
    if (purpose_ == Purpose::learn_by_content && pass != Pass::content) continue;
    std::vector<Sorted> sends = sorted(sent_, pass), receives = sorted(got_, pass);
    matcher_.by_ = pass == Pass::strict       ? MatchedBy::address
                   : pass == Pass::any_source ? MatchedBy::one_address
                                              : MatchedBy::content;
    for_each_group(sends, receives, [&](std::span<Sorted> some, std::span<Sorted> others) {
      if (purpose_ == Purpose::match) return match_group(some, others, pass);
      Packet &send = *some[0].packet, &receive = *others[0].packet;
      const SendFlow flow{send.node, send.channel, send.destination, send.to_many, {&send}, {}};
      if (some.size() == 1 && others.size() == 1 && fit(flow, receive, pass, true) != Fit::none &&
          !matcher_.is_comparable(send.node, receive.node))
        matcher_.note_cross(send.node, send.transfer->time, receive.node, receive.transfer->time);
    });
  }
}

void Matcher::match_datagrams(Purpose purpose) { DatagramMatcher(*this, purpose).run(); }

}  // namespace friday
