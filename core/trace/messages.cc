#include "core/trace/messages.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "core/trace/facts.h"
#include "core/trace/payload.h"

namespace friday {
namespace {

using End = std::tuple<uint32_t, uint64_t, uint32_t>;  // node id, event, which transfer of the event

bool holds(const std::vector<End>& sorted, End end) { return std::ranges::binary_search(sorted, end); }

}  // namespace

std::optional<EdgeKind> message_kind(const Channel& channel) {
  if (channel.is_datagram()) return EdgeKind::datagram;
  if (channel.is_stream()) return EdgeKind::stream;
  if (channel.kind == format::kChannelPipe) return EdgeKind::pipe;
  return std::nullopt;
}

bool moves_message(const Channel& channel, const Transfer& transfer) {
  return !(transfer.flags & (format::kPeek | format::kOutOfBand)) && (channel.is_datagram() || transfer.length > 0);
}

Result<std::vector<Message>> messages_of(const Recording& recording, const Schedule& schedule) {
  std::vector<Message> list;
  std::vector<End> senders, receivers;
  for (const Edge& edge : schedule.edges()) {
    if (!is_message(edge)) continue;
    list.push_back({MessageEnd{edge.from, edge.from_event}, MessageEnd{edge.to, edge.to_event}, edge.bytes, edge.kind,
                    edge.place});
    senders.emplace_back(edge.from.value, edge.from_event, edge.place.sent_in);
    receivers.emplace_back(edge.to.value, edge.to_event, edge.place.received_in);
  }
  std::ranges::sort(senders);
  std::ranges::sort(receivers);
  FRIDAY_TRY(facts, FactSet::gather(recording, schedule.nodes()));
  for (const Channel& channel : facts.channels) {
    const auto kind = message_kind(channel);
    if (!kind) continue;
    const NodeId node = facts.nodes[channel.node].id;
    for (const Transfer& t : channel.out)
      if (moves_message(channel, t) && !holds(senders, {node.value, t.event, t.part}))
        list.push_back({MessageEnd{node, t.event}, std::nullopt, t.length, *kind, {.sent_in = t.part}});
    for (const Transfer& t : channel.in)
      if (moves_message(channel, t) && !holds(receivers, {node.value, t.event, t.part}))
        list.push_back({std::nullopt, MessageEnd{node, t.event}, t.length, *kind, {.received_in = t.part}});
  }
  // Of the messages that one call received, the order of the edges is that of their senders.
  std::ranges::stable_sort(list, {}, [&](const Message& m) {
    return std::tuple(schedule.position_of(m.last().node, {m.last().event}), m.place.received_in, m.place.received_at);
  });
  return list;
}

MessageText text_of(const Message& message, const std::optional<EventView>& received) {
  if (!received) return {{}, "no replayed node receives it, and of what a program sends only a hash is kept"};
  const PayloadAnswer kept = trace_payloads().read(*received, message.place.received_in);
  if (!kept) return {{}, std::string(gap_text(kept.error()))};
  MessageText text;
  uint64_t skipped = message.place.received_at, left = message.bytes;
  for (std::span<const std::byte> piece : kept->pieces) {
    const uint64_t before = std::min<uint64_t>(skipped, piece.size());
    piece = piece.subspan(before, std::min<uint64_t>(left, piece.size() - before));
    text.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    skipped -= before;
    left -= piece.size();
  }
  if (left)
    text.missing = message.kind == EdgeKind::datagram
                       ? fmt::format("the receiver's buffer was too short for the last {} bytes", left)
                       : fmt::format("the last {} bytes were not kept", left);
  return text;
}

}  // namespace friday
