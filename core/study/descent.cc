#include "core/study/descent.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/trace/messages.h"

namespace friday {
namespace {

using End = std::tuple<uint32_t, uint64_t, uint32_t>;  // node id, event, which transfer of the event

struct Moved {
  uint64_t position;  // in the order of all events
  uint32_t channel;
  const Transfer* transfer;
  bool sent;
};

class Walk {
 public:
  Walk(const Schedule& schedule, const FactSet& facts) : facts_(facts) {
    for (uint32_t number = 0; number < facts.channels.size(); number++) {
      const Channel& channel = facts.channels[number];
      if (!message_kind(channel)) continue;
      const NodeId node = node_of(channel);
      for (const bool sent : {false, true})
        for (const Transfer& transfer : sent ? channel.out : channel.in) {
          if (!moves_message(channel, transfer)) continue;
          moved_.push_back({schedule.position_of(node, {transfer.event}), number, &transfer, sent});
          if (sent) sent_by_.try_emplace({node.value, transfer.event, transfer.part}, number);
          else received_by_.try_emplace({node.value, transfer.event, transfer.part}, number);
        }
    }
    std::ranges::stable_sort(moved_, {}, &Moved::position);
    for (const Edge& edge : schedule.edges()) {
      const auto from = sent_by_.find({edge.from.value, edge.from_event, edge.place.sent_in});
      const auto to = received_by_.find({edge.to.value, edge.to_event, edge.place.received_in});
      if (!is_message(edge) || from == sent_by_.end() || to == received_by_.end()) continue;
      peers_[from->second].insert(to->second);
      peers_[to->second].insert(from->second);
      sender_.try_emplace({edge.to.value, edge.to_event, edge.place.received_in},
                          End{edge.from.value, edge.from_event, edge.place.sent_in});
    }
  }

  NodeId node_of(const Channel& channel) const { return facts_.nodes[channel.node].id; }

  void mark(uint32_t channel, std::vector<bool>& channels) const {
    channels[channel] = true;
    if (const auto peers = peers_.find(channel); peers != peers_.end())
      for (const uint32_t peer : peers->second) channels[peer] = true;
  }

  void go(const std::set<uint32_t>& roots, std::vector<bool>& channels, std::set<End>& datagrams) {
    std::map<std::pair<uint32_t, uint32_t>, bool> of_thread;  // whether what it has received last descends
    std::map<uint32_t, bool> of_node;
    for (const Moved& each : moved_) {
      const Channel& channel = facts_.channels[each.channel];
      const uint32_t node = node_of(channel).value;
      const End end{node, each.transfer->event, each.transfer->part};
      const bool alone = channel.is_datagram(), root = roots.contains(node);
      if (each.sent) {
        const auto known = of_thread.find({node, each.transfer->thread});
        const bool descends = root || (known != of_thread.end() ? known->second : of_node[node]);
        if (descends && alone) datagrams.insert(end);
        else if (descends) mark(each.channel, channels);
        continue;
      }
      const auto sender = sender_.find(end);
      const bool descends =
          root || (alone ? sender != sender_.end() && datagrams.contains(sender->second) : channels[each.channel]);
      if (descends && alone) datagrams.insert(end);
      else if (root) mark(each.channel, channels);
      of_thread[{node, each.transfer->thread}] = of_node[node] = descends;
    }
  }

 private:
  const FactSet& facts_;
  std::vector<Moved> moved_;
  std::map<End, uint32_t> sent_by_, received_by_;  // channels
  std::map<uint32_t, std::set<uint32_t>> peers_;   // channels at the other end
  std::map<End, End> sender_;                      // of what was received
};

}  // namespace

Descent::Descent(const Schedule& schedule, const FactSet& facts, const std::set<uint32_t>& roots)
    : channels_(facts.channels.size()) {
  std::set<End> datagrams;
  Walk walk(schedule, facts);
  walk.go(roots, channels_, datagrams);
  for (uint32_t number = 0; number < facts.channels.size(); number++) {
    const Channel& channel = facts.channels[number];
    if (!channel.is_datagram()) continue;
    for (const auto* list : {&channel.out, &channel.in})
      for (const Transfer& transfer : *list)
        if (datagrams.contains({walk.node_of(channel).value, transfer.event, transfer.part}))
          messages_.insert({number, transfer.event, transfer.part});
  }
}

bool Descent::has(uint32_t channel, const Transfer& transfer) const {
  return channels_[channel] || messages_.contains({channel, transfer.event, transfer.part});
}

}  // namespace friday
