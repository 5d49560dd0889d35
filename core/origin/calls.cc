// The system calls on the way of a value: which message has brought it, and where its sender had it.
#include <algorithm>
#include <span>
#include <utility>

#include "core/origin/origin.h"
#include "core/trace/calls.h"
#include "core/trace/channels.h"
#include "core/trace/event_text.h"
#include "core/trace/payload.h"

namespace friday {
namespace {

using How = Hop::How;

// A piece of memory that a call has written, and which bytes of which transfer it is, if of any.
struct WrittenPart {
  Bytes bytes;  // those of the wanted ones that it is
  const format::TransferPart* transfer = nullptr;
  uint32_t number = 0;  // of the transfer
  uint64_t offset = 0;  // in the transfer's bytes
};

// The largest piece of the wanted bytes that the event's call has written; none if the event does not say.
std::optional<WrittenPart> written_at(const EventView& event, const Bytes& wanted) {
  std::optional<WrittenPart> largest;
  for (const Received& part : received_parts(event)) {
    const Bytes bytes{Bytes::In::memory, part.address, part.bytes.size()};
    if (!bytes.overlaps(wanted) || (largest && bytes.common(wanted).size <= largest->bytes.size)) continue;
    largest = WrittenPart{bytes.common(wanted), part.transfer, part.number, 0};
    largest->offset = part.offset + largest->bytes.low - bytes.low;
  }
  return largest;
}

// struct iovec, and the members of struct msghdr that name its buffers (socket.h).
struct Vector {
  uint64_t base, length;
};
struct MessageHeader {
  uint64_t name, name_length, vectors, count, control, control_length, flags;
};
static_assert(sizeof(MessageHeader) == 56);
constexpr uint64_t kMessageStride = 64;  // of struct mmsghdr
constexpr uint64_t kMostVectors = 1024;  // UIO_MAXIOV

template <typename T>
Result<T> read_object(ReplayNode& node, uint64_t address) {
  T object{};
  FRIDAY_TRY_VOID(node.read(Addr{address}, std::as_writable_bytes(std::span(&object, 1))));
  return object;
}

// The rest of the buffer in which byte `offset` of all buffers is.
Result<std::optional<Bytes>> in_vectors(ReplayNode& node, uint64_t vectors, uint64_t count, uint64_t offset) {
  for (uint64_t i = 0; i < std::min(count, kMostVectors); i++) {
    FRIDAY_TRY(vector, read_object<Vector>(node, vectors + i * sizeof(Vector)));
    if (offset < vector.length)
      return std::optional(Bytes{Bytes::In::memory, vector.base + offset, vector.length - offset});
    offset -= vector.length;
  }
  return std::optional<Bytes>{};
}

}  // namespace

std::vector<Received> received_parts(const EventView& event) {
  std::vector<std::pair<const format::TransferPart*, uint64_t>> transfers;  // with the bytes of each in the event
  for (PartView part : event.parts())
    if (const auto* transfer = part.transfer())
      transfers.emplace_back(transfer, trace_payloads().bytes_in_event(*transfer));
  size_t number = 0;
  uint64_t used = 0;  // of this transfer
  std::vector<Received> all;
  for (PartView part : event.parts()) {
    if (part.kind() != format::kMemory) continue;
    while (number < transfers.size() && used == transfers[number].second) number++, used = 0;
    Received received{part.address(), part.bytes()};
    if (number < transfers.size()) {
      received.transfer = transfers[number].first;
      received.number = static_cast<uint32_t>(number);
      received.offset = used;
      used += std::min(received.bytes.size(), transfers[number].second - used);
    }
    all.push_back(received);
  }
  return all;
}

Result<std::optional<Bytes>> sent_run(ReplayNode& node, const EventView& event, uint32_t number, uint64_t offset) {
  const SentFrom from = sent_from(event->call);
  const uint64_t pointer = event.argument(from.pointer), count = event.argument(from.count);
  switch (from.shape) {
    case SentFrom::Shape::none: break;
    case SentFrom::Shape::buffer:
      if (offset >= count) break;
      return std::optional(Bytes{Bytes::In::memory, pointer + offset, count - offset});
    case SentFrom::Shape::vector: return in_vectors(node, pointer, count, offset);
    case SentFrom::Shape::message:
    case SentFrom::Shape::messages: {
      const uint64_t at = from.shape == SentFrom::Shape::messages ? pointer + number * kMessageStride : pointer;
      FRIDAY_TRY(header, read_object<MessageHeader>(node, at));
      return in_vectors(node, header.vectors, header.count, offset);
    }
  }
  return std::optional<Bytes>{};
}

Result<const TraceIndex*> Origin::index_of(NodeId id) {
  if (const auto known = indexes_.find(id); known != indexes_.end()) return &known->second;
  ReplaySession& session = debugger_.session();
  FRIDAY_TRY(index, TraceIndex::load_or_build(session.recording(), session.find(id)->reader()));
  return &indexes_.emplace(id, std::move(index)).first->second;
}

// The group stands in a call of the node that has written the bytes.
Result<bool> Origin::from_call(NodeId id, ThreadId thread) {
  const bool is_other = id != node_;
  node_ = id;
  thread_ = thread;
  const EventIndex at = debugger_.session().mark(id).event;
  FRIDAY_TRY(index, index_of(id));
  FRIDAY_TRY(event, index->event(node().reader(), at.value));
  const std::string what = what_text(event);
  if (is_other || !event.has_call())
    return end(How::lost, Addr{}, fmt::format("not followed further: written at {}", what.empty() ? "an event" : what));
  const auto written = written_at(event, wanted_);
  if (written) {
    FRIDAY_TRY(left_out, leave_out(written->bytes));
    if (left_out) return true;
    follow_written(written->bytes, written->bytes);
  }
  if (written && written->transfer && written->transfer->direction == format::kIn)
    return from_transfer(event, *written->transfer, written->number, written->offset);
  if (written || (event.is_clock() && event.clock_address() <= wanted_.low && wanted_.low < event.clock_address() + 16))
    return end(How::outside, Addr{node().call_site(thread)}, fmt::format("written by {}{}", what, result_text(event)));
  return end(How::lost, Addr{node().call_site(thread)},
             fmt::format("not followed further: written in {}{}", what, result_text(event)));
}

// The bytes are those at `offset` of a transfer that the event has received.
Result<bool> Origin::from_transfer(const EventView& event, const format::TransferPart& transfer, uint32_t number,
                                   uint64_t offset) {
  ReplaySession& session = debugger_.session();
  const Addr pc{node().call_site(thread_)};
  const std::string where =
      fmt::format("received by {}, byte {} of {}", call_text(event->call), offset, transfer.length);
  const auto end_of = [](const Edge& edge) { return std::pair(edge.to, edge.to_event); };
  // The bytes may have come by several sends: which part of them by this one.
  const auto part_by = [&](const Edge& edge) {
    const MessagePlace& place = edge.place;
    const uint64_t low = std::max(offset, place.received_at);
    const uint64_t high = std::min(offset + wanted_.size, place.received_at + edge.bytes);
    const bool is_here = is_message(edge.kind) && place.received_in == number && low < high;
    return is_here ? Bytes{wanted_.in, wanted_.low + low - offset, high - low} : Bytes{};
  };
  const auto rank = [&](const Edge& edge) {
    const Bytes part = part_by(edge);
    return part.size == 0 ? std::tuple(false, false, uint64_t{0}) : std::tuple(matters(part), carries(part), part.size);
  };
  const auto edges = std::ranges::equal_range(session.schedule().edges(), std::pair(node_, event->index), {}, end_of);
  const auto edge = std::ranges::max_element(edges, {}, rank);
  if (const Bytes part = edge == edges.end() ? Bytes{} : part_by(*edge); part.size > 0) {
    const uint64_t first = offset + part.low - wanted_.low;
    const NodeInfo* sender = session.recording().find(edge->from);
    follow_written(wanted_, part);
    FRIDAY_TRY_VOID(add(How::received, pc,
                        fmt::format("received by {}, byte {} of {}, from node {} ({})", call_text(event->call), first,
                                    transfer.length, edge->from, sender->name)));
    return from_send(*edge, first - edge->place.received_at);
  }
  FRIDAY_TRY(index, index_of(node_));
  FRIDAY_TRY(channels, channels_of(node_));
  const uint64_t record = index->offset(event->index);
  const ChannelDescription* channel = channels->find(transfer.channel, record);
  if (channel && channel->inode && (channel->kind == format::kChannelFile || channel->kind == format::kChannelPipe)) {
    FRIDAY_TRY_VOID(add(How::received, pc, fmt::format("{}, from a {}", where, channel_kind_name(channel->kind))));
    return from_object(event, *channel, transfer, number, offset);
  }
  std::string peer;
  for (PartView part : event.parts())
    if (part.transfer() == &transfer) peer = channels->peer_text(part, record);
  const bool has_sender =
      channel && (channel->kind == format::kChannelStream || channel->kind == format::kChannelDatagram ||
                  channel->kind == format::kChannelSeqpacket);
  return end(How::outside, pc,
             fmt::format("{}, from a {}{}{}", where, channel ? channel_kind_name(channel->kind) : "channel",
                         peer.empty() ? "" : " with " + peer, has_sender ? "; no node is known to have sent it" : ""));
}

// Goes to the send, and follows the same bytes in its buffers.
Result<bool> Origin::from_send(const Edge& edge, uint64_t offset) {
  if (!debugger_.session().find(edge.from)) {
    hops_.back().text += "; not followed further: that node is not replayed";
    return false;
  }
  return from_buffers(edge.from, {edge.from_event}, edge.place.sent_in, edge.place.sent_at + offset,
                      edge.bytes - std::min(edge.bytes, offset), "sent", "sends");
}

Result<DebugStop> Origin::go_to_event(NodeId id, EventIndex event) {
  FRIDAY_TRY(stop, backward_.go_to({id, event}));
  if (stop.kind != Stop::Kind::reached)
    return fail(ErrorCode::interrupted, "the way back was interrupted ({})", name_of(stop.kind));
  return std::move(stop);
}

Result<bool> Origin::from_buffers(NodeId id, EventIndex at, uint32_t number, uint64_t offset, uint64_t rest,
                                  const char* done, const char* does) {
  if (rest < wanted_.size) {  // the rest of the value has come with another message
    follow_part({wanted_.in, wanted_.low, rest});
    hops_.back().text += fmt::format("; its first {} bytes are followed", rest);
  }
  FRIDAY_TRY(stop, go_to_event(id, at));
  node_ = id;
  thread_ = stop.thread;
  FRIDAY_TRY(index, index_of(node_));
  FRIDAY_TRY(event, index->event(node().reader(), at.value));
  FRIDAY_TRY(run, sent_run(node(), event, number, offset));
  if (!run) {
    hops_.back().text += "; not followed further: its send takes the bytes from no memory of the program";
    return false;
  }
  wanted_ = {Bytes::In::memory, run->low, wanted_.size};
  FRIDAY_TRY(holds, check_source());
  if (!holds) return false;
  FRIDAY_TRY_VOID(add(How::sent, Addr{node().call_site(thread_)},
                      fmt::format("{} by {}, byte {} of what it {}", done, call_text(event->call), offset, does)));
  return true;
}

}  // namespace friday
