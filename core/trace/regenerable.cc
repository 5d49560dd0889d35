#include "core/trace/regenerable.h"

#include <algorithm>
#include <tuple>

#include "core/trace/calls.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"

namespace friday {

namespace {

// What a sender has recorded of one transfer that it sent.
struct Sent {
  uint64_t length = 0;
  uint64_t received = 0;  // bytes of it that streams' messages name
};
using SendKey = std::tuple<NodeId, uint64_t, uint32_t>;  // node, event, transfer

class Finder {
 public:
  Finder(const Recording& recording, const Schedule& order) : recording_(recording), order_(order) {}

  Result<std::map<NodeId, std::vector<Regenerable>>> run() {
    for (const Edge& edge : order_.edges())
      if (is_message(edge) && edge.bytes > 0 && !edge.duplicate)
        sent_[{edge.from, edge.from_event, edge.place.sent_in}].received += edge.bytes;
    for (NodeId node : order_.nodes()) FRIDAY_TRY_VOID(look_at_sends(node));
    std::map<NodeId, std::vector<const Edge*>> received;
    for (const Edge& edge : order_.edges())
      if (is_message(edge) && is_proven(edge)) received[edge.to].push_back(&edge);
    for (auto& [node, edges] : received) FRIDAY_TRY_VOID(look_at_receives(node, edges));
    return std::move(found_);
  }

 private:
  // The length of a send stands in the event of the call; if that was released, in the event of its return.
  Result<void> look_at_sends(NodeId node) {
    FRIDAY_TRY(reader, TraceReader::open(recording_, node, TraceReader::Gaps::allow));
    std::map<uint32_t, uint64_t> released;  // by thread: event of the release of the call that it is in
    RecordCursor cursor = reader.records();
    while (cursor.next()) {
      if (!cursor.record().is_event()) continue;
      const EventView event = cursor.record().event();
      if (event.type() == format::kRelease) released[event.thread()] = event->index;
      if (event.type() != format::kCall && event.type() != format::kReturn) continue;
      if (sent_from(event->call).shape == SentFrom::Shape::none) continue;
      const uint64_t entered = event.type() == format::kReturn ? released[event.thread()] : event->index;
      uint32_t ordinal = 0;
      for (PartView part : event.parts()) {
        const format::TransferPart* moved = part.transfer();
        if (!moved) continue;
        auto sent = sent_.find({node, entered, ordinal++});
        if (sent != sent_.end() && moved->direction == format::kOut && moved->representation == format::kHashOnly)
          sent->second.length = moved->length;
      }
    }
    if (cursor.error()) return std::unexpected(*cursor.error());
    return {};
  }

  // `edges`: of messages that the node received.
  Result<void> look_at_receives(NodeId node, std::vector<const Edge*>& edges) {
    std::ranges::sort(edges, {}, [](const Edge* edge) {
      return std::tuple(edge->to_event, edge->place.received_in, edge->place.received_at);
    });
    FRIDAY_TRY(reader, TraceReader::open(recording_, node, TraceReader::Gaps::allow));
    RecordCursor cursor = reader.records();
    for (auto next = edges.begin(); next != edges.end() && cursor.next();) {
      if (!cursor.record().is_event()) continue;
      const EventView event = cursor.record().event();
      const auto first = next;
      while (next != edges.end() && (*next)->to_event == event->index) ++next;
      if (first != next) add(node, cursor.record(), std::span(first, next));
    }
    if (cursor.error()) return std::unexpected(*cursor.error());
    return {};
  }

  bool is_proven(const Edge& edge) const {
    const auto sent = sent_.find({edge.from, edge.from_event, edge.place.sent_in});
    if (edge.bytes == 0 || sent == sent_.end() || sent->second.length == 0) return false;
    return edge.kind == EdgeKind::datagram ? edge.bytes == sent->second.length
                                           : sent->second.received == sent->second.length;
  }

  void add(NodeId node, const RecordView& record, std::span<const Edge*> edges) {
    trace_payloads().for_each_piece(record.event(), [&](const PayloadPiece& piece) {
      const auto offset = record.offset() + static_cast<uint64_t>(piece.bytes.data() - record.bytes().data());
      for (const Edge* edge : edges)
        if (edge->place.received_in == piece.ordinal)
          overlap(node, piece, offset, *edge, record.event().return_ticks());
    });
  }

  // Of the message `edge`, the bytes that stand in the piece, which is at `offset` in the trace.
  void overlap(NodeId node, const PayloadPiece& piece, uint64_t offset, const Edge& edge, uint64_t ticks) {
    const format::TransferPart& moved = piece.transfer;
    if (moved.direction != format::kIn || (moved.flags & (format::kPeek | format::kOutOfBand | format::kTruncated)))
      return;
    // The payload of a raw socket begins with a header that the sender did not send.
    const bool stream = edge.kind != EdgeKind::datagram;
    if (!stream && moved.length != edge.bytes) return;
    const uint64_t from = std::max(piece.before, edge.place.received_at);
    const uint64_t to =
        std::min({piece.before + piece.bytes.size(), edge.place.received_at + edge.bytes, moved.length});
    if (from >= to) return;
    const SentFromCall source{recording_.find(edge.from)->uuid, edge.from_event, edge.place.sent_in,
                              edge.place.sent_at + (from - edge.place.received_at)};
    found_[node].push_back({{offset + (from - piece.before), to - from, source},
                            stream ? moved.offset + from : 0,
                            from,
                            stream,
                            moved.channel,
                            ticks});
  }

  const Recording& recording_;
  const Schedule& order_;
  std::map<SendKey, Sent> sent_;
  std::map<NodeId, std::vector<Regenerable>> found_;
};

}  // namespace

Result<std::map<NodeId, std::vector<Regenerable>>> find_regenerable(const Recording& recording, const Schedule& order) {
  return Finder(recording, order).run();
}

}  // namespace friday
