#include "core/trace/messages.h"

#include <algorithm>

#include "core/trace/facts.h"

namespace friday {
namespace {

using End = std::pair<uint32_t, uint64_t>;  // node id, event

bool holds(const std::vector<End>& sorted, End end) { return std::ranges::binary_search(sorted, end); }

std::optional<EdgeKind> kind_of(const Channel& channel) {
  if (channel.is_datagram()) return EdgeKind::datagram;
  if (channel.is_stream()) return EdgeKind::stream;
  if (channel.kind == format::kChannelPipe) return EdgeKind::pipe;
  return std::nullopt;
}

bool is_moved(const Channel& channel, const Transfer& transfer) {
  return !(transfer.flags & (format::kPeek | format::kOutOfBand)) && (channel.is_datagram() || transfer.length > 0);
}

}  // namespace

Result<std::vector<Message>> messages_of(const Recording& recording, const Schedule& schedule) {
  std::vector<Message> list;
  std::vector<End> senders, receivers;
  for (const Edge& edge : schedule.edges()) {
    if (!is_message(edge.kind)) continue;
    list.push_back({MessageEnd{edge.from, edge.from_event}, MessageEnd{edge.to, edge.to_event}, edge.bytes, edge.kind});
    senders.emplace_back(edge.from.value, edge.from_event);
    receivers.emplace_back(edge.to.value, edge.to_event);
  }
  std::ranges::sort(senders);
  std::ranges::sort(receivers);
  FRIDAY_TRY(facts, FactSet::gather(recording, schedule.nodes()));
  for (const Channel& channel : facts.channels) {
    const auto kind = kind_of(channel);
    if (!kind) continue;
    const NodeId node = facts.nodes[channel.node].id;
    for (const Transfer& t : channel.out)
      if (is_moved(channel, t) && !holds(senders, {node.value, t.event}))
        list.push_back({MessageEnd{node, t.event}, std::nullopt, t.length, *kind});
    for (const Transfer& t : channel.in)
      if (is_moved(channel, t) && !holds(receivers, {node.value, t.event}))
        list.push_back({std::nullopt, MessageEnd{node, t.event}, t.length, *kind});
  }
  std::ranges::stable_sort(list, {},
                           [&](const Message& m) { return schedule.position_of(m.last().node, {m.last().event}); });
  return list;
}

}  // namespace friday
