#include "core/trace/live_regenerable.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/trace/address.h"
#include "core/trace/calls.h"
#include "core/trace/channels.h"
#include "core/trace/leaving_out.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"

namespace friday {

using namespace format;

namespace {

// Calls visit(RecordView) for each of the records that is sound, its checksum included if that is asked for.
template <typename Visit>
void for_each_record(std::span<const std::byte> records, uint64_t offset, bool checksums, Visit&& visit) {
  for (size_t at = 0; at < records.size();) {
    const auto* header = reinterpret_cast<const RecordHeader*>(records.data() + at);
    const RecordView record(header, offset + at);
    if (!record_problem(record, checksums)) visit(record);
    at += header->size;
  }
}

// Streams have names that both ends can tell. Of a socketpair each end has a name of its own for what it sends.
std::string name_of(const Address& from, const Address& to) { return text(from) + ">" + text(to); }
std::string name_of(const ChannelRecord& record) { return fmt::format("{}:{}", record.device, record.inode); }

}  // namespace

size_t LiveRegenerable::add(const Of& of) {
  by_node_[of.node] = traces_.size();
  Trace& trace = traces_.emplace_back();
  trace.node = of.node;
  trace.parent = of.parent;
  trace.generation = of.generation;
  trace.takes_over = of.is_part;
  if (Trace* of = parent_of(trace)) of->children++;
  return traces_.size() - 1;
}

LiveRegenerable::Trace* LiveRegenerable::parent_of(const Trace& trace) {
  const auto parent = by_node_.find(trace.parent);
  return parent == by_node_.end() || &traces_[parent->second] >= &trace ? nullptr : &traces_[parent->second];
}

std::optional<size_t> LiveRegenerable::parent(size_t trace) {
  const Trace* parent = parent_of(traces_[trace]);
  return parent ? std::optional(static_cast<size_t>(parent - traces_.data())) : std::nullopt;
}

void LiveRegenerable::forget(size_t number) {
  if (!std::exchange(traces_[number].ended, true)) leave(&traces_[number]);
}

// Forgets the channels of a trace that has ended and of those from which it has inherited some, unless others still
// need them.
void LiveRegenerable::leave(Trace* trace) {
  while (trace && trace->ended && trace->children == 0) {
    channels_ -= trace->channels.size();
    trace->channels = {};
    trace->released = {};
    trace = parent_of(*trace);
    if (trace && trace->children > 0) trace->children--;
  }
}

// The part before is complete: its channels are this part's from now on.
void LiveRegenerable::take_over(Trace& part) {
  part.takes_over = false;
  Trace* const before = parent_of(part);
  part.parent = {};
  if (!before) return;
  part.channels = before->channels;
  channels_ += part.channels.size();
  for (auto& [number, known] : part.channels) known.is_of_part_before = true;
  if (before->children > 0) before->children--;
  leave(before);
}

std::shared_ptr<LiveRegenerable::Stream> LiveRegenerable::stream(const std::string& name) {
  std::weak_ptr<Stream>& known = streams_[name];
  auto found = known.lock();
  if (!found) known = found = std::make_shared<Stream>();
  return found;
}

// Null if nothing is known of it. A forked process has the channels of its parent.
LiveRegenerable::Channel* LiveRegenerable::channel(size_t trace, uint64_t number) {
  constexpr int kMostAncestors = 64;
  auto& own = traces_[trace].channels;
  auto found = own.find(number);
  const Trace* ancestor = &traces_[trace];
  for (int n = 0; found == own.end() && n < kMostAncestors; n++) {
    ancestor = parent_of(*ancestor);
    if (!ancestor) return nullptr;
    if (const auto inherited = ancestor->channels.find(number); inherited != ancestor->channels.end()) {
      const Channel copy = inherited->second;
      found = own.emplace(number, copy).first;
      channels_++;
    }
  }
  if (found == own.end()) return nullptr;
  found->second.used = ++uses_;
  return &found->second;
}

void LiveRegenerable::note_channel(Trace& trace, const ChannelRecord& record, const ChannelPositions* before) {
  const auto [place, is_new] = trace.channels.try_emplace(record.channel);
  channels_ += is_new;
  Channel& known = place->second;
  const bool is_known = std::exchange(known.is_of_part_before, false) && known.kind == record.kind;
  const std::string was_local = std::move(known.local), was_remote = std::move(known.remote);
  known.kind = record.kind;
  known.used = ++uses_;
  const Address local = parse_address(record.local), remote = parse_address(record.remote);
  known.local = local.known() ? text(local) : "";
  known.remote = remote.known() ? text(remote) : "";
  if ((is_new || is_known) && before) known.hash = before->out_hash;
  if (is_known && known.local == was_local && known.remote == was_remote) return;
  if (record.kind == kChannelPipe) {
    known.out = known.in = stream(name_of(record));
  } else if (record.kind == kChannelStream) {
    known.own = name_of(record);
    if (record.domain == AF_UNIX) note_unix(known, local, remote);
    if (!local.is_inet() || !local.known() || !remote.known()) return;
    known.out = stream(name_of(local, remote));
    known.in = stream(name_of(remote, local));
    known.in->claimed = true;
  }
}

// Nothing but the path of the listening socket says which ends of Unix connections belong together.
void LiveRegenerable::note_unix(Channel& known, const Address& local, const Address& remote) {
  const std::string& path = remote.name.empty() ? local.name : remote.name;
  if (path.empty() || known.out) return;
  const bool connects = !remote.name.empty();
  known.out = stream(known.own);
  known.out->offered = true;
  known.wants = (connects ? "<" : ">") + path;
  auto& offers = offers_[(connects ? ">" : "<") + path];
  if (offers.size() >= kMostOffers) offers.erase(offers.begin(), offers.begin() + kMostOffers / 2);
  offers.push_back(known.out);
}

// Finds the stream of which these are the first bytes: that of the oldest end that sent them.
void LiveRegenerable::bind(Channel& through, const PayloadPiece& first, EventView event) {
  for (const std::weak_ptr<Stream>& offer : offers_[through.wants]) {
    const auto offered = offer.lock();
    if (!offered || offered->claimed || offered->sends.empty()) continue;
    const Send& send = offered->sends.front();
    if (send.start != 0 || send.length > first.bytes.size() || send.ticks > event.return_ticks() ||
        run_hash(first.bytes.first(send.length), send.seed) != send.hash)
      continue;
    through.in = offered;
    through.wants.clear();
    offered->claimed = true;
    return;
  }
}

// The two ends of a socketpair receive what the other one sends.
void LiveRegenerable::note_pair(size_t trace, EventView event) {
  std::vector<Channel*> ends;
  for (PartView part : event.parts())
    for (const DescriptorsPart& opened : part.descriptors()) ends.push_back(channel(trace, opened.channel));
  if (ends.size() != 2 || !ends[0] || !ends[1] || ends[0] == ends[1]) return;
  for (const auto& [from, to] : {std::pair(ends[0], ends[1]), std::pair(ends[1], ends[0])}) {
    if (from->kind != kChannelStream) continue;
    from->out = to->in = stream(from->own);
    from->out->claimed = true;
  }
}

void LiveRegenerable::note_send(Trace& trace, EventView event, Channel& through, const TransferPart& moved,
                                uint32_t ordinal) {
  const uint64_t seed = std::exchange(through.hash, moved.hash);
  if (moved.representation != kHashOnly || moved.length == 0 || moved.offset + moved.length < moved.offset ||
      (moved.flags & kOutOfBand) || sent_from(event->call).shape == SentFrom::Shape::none)
    return;
  Send send{moved.offset,
            moved.length,
            moved.hash,
            seed,
            event->entry_ticks,
            trace.generation,
            {trace.node, event->index, ordinal, 0}};
  if (const auto released = trace.released.find(event.thread());
      event.type() == kReturn && released != trace.released.end())
    std::tie(send.source.event, send.ticks) = released->second;
  if (through.kind == kChannelDatagram || through.kind == kChannelSeqpacket) {
    if (datagrams_.size() >= kMostDatagrams) {
      datagrams_before_ = std::move(datagrams_);
      datagrams_.clear();
    }
    datagrams_[moved.hash] = send;
  } else if (through.out) {
    // Another connection between the same addresses.
    if (send.start == 0) *through.out = {{}, through.out->claimed, through.out->offered, 0, 0, {}};
    through.out->sends.push_back(send);
  }
}

void LiveRegenerable::note_event(size_t index, EventView event) {
  Trace& trace = traces_[index];
  if (event.type() == kRelease) trace.released[event.thread()] = {event->index, event->entry_ticks};
  if (event.type() != kCall && event.type() != kReturn) return;
  if (event->call == SYS_socketpair && event->result == 0) note_pair(index, event);
  uint32_t ordinal = 0;
  bool first = false;  // it may have received the first bytes of a stream
  for (PartView part : event.parts()) {
    const TransferPart* moved = part.transfer();
    if (!moved) continue;
    Channel* through = channel(index, moved->channel);
    if (through && moved->direction == kOut) note_send(trace, event, *through, *moved, ordinal);
    if (through && moved->direction == kIn && moved->length > 0) {
      first |= moved->offset == 0;
      if (through->in) through->in->claimed = true;
    }
    ordinal++;
  }
  if (!first || offers_.empty()) return;
  trace_payloads().for_each_piece(event, [&](const PayloadPiece& piece) {
    Channel* through = piece.transfer.offset + piece.before == 0 ? channel(index, piece.transfer.channel) : nullptr;
    if (through && !through->in && !through->wants.empty()) bind(*through, piece, event);
  });
}

void LiveRegenerable::note(size_t trace, std::span<const std::byte> records) {
  if (traces_[trace].takes_over) take_over(traces_[trace]);
  for_each_record(records, 0, false, [&](const RecordView& record) {
    if (const ChannelRecord* described = record.channel())
      note_channel(traces_[trace], *described, record.channel_positions());
    else if (record.is_event()) note_event(trace, record.event());
  });
}

// Forgets the half of all channels that were used longest ago.
void LiveRegenerable::forget_channels() {
  std::vector<uint64_t> uses;
  for (const Trace& trace : traces_)
    for (const auto& [number, known] : trace.channels) uses.push_back(known.used);
  const auto middle = uses.begin() + static_cast<ptrdiff_t>(uses.size() / 2);
  std::ranges::nth_element(uses, middle);
  channels_ = 0;
  for (Trace& trace : traces_) {
    std::erase_if(trace.channels, [&](const auto& each) { return each.second.used < *middle; });
    channels_ += trace.channels.size();
  }
}

void LiveRegenerable::settle() {
  if (channels_ > kMostChannels) forget_channels();
  std::erase_if(streams_, [](const auto& each) {
    const auto stream = each.second.lock();
    if (!stream) return true;
    const size_t most = stream->claimed ? kMostWaiting : stream->offered ? kMostOffered : kMostUnclaimed;
    if (stream->sends.size() > most)
      stream->sends.erase(stream->sends.begin(), stream->sends.end() - static_cast<ptrdiff_t>(most));
    return false;
  });
  for (auto& [path, offers] : offers_)
    std::erase_if(offers, [](const auto& offer) {
      const auto stream = offer.lock();
      return !stream || stream->claimed;
    });
  std::erase_if(offers_, [](const auto& each) { return each.second.empty(); });
}

// Whether the pieces, which follow each other without a gap, have the bytes that were sent.
bool LiveRegenerable::agrees(const Send& send, std::span<const Piece> pieces) {
  gathered_.clear();
  for (const Piece& piece : pieces) {
    const uint64_t from = std::max(piece.start, send.start), to = std::min(piece.end(), send.end());
    if (send.ticks > piece.ticks) return false;
    const auto part = piece.bytes.subspan(from - piece.start, to - from);
    if (part.size() == send.length) return run_hash(part, send.seed) == send.hash;
    gathered_.insert(gathered_.end(), part.begin(), part.end());
  }
  return gathered_.size() == send.length && run_hash(gathered_, send.seed) == send.hash;
}

// `pieces`: what was received of the stream in this block.
void LiveRegenerable::match(Stream& stream, std::vector<Piece>& pieces) {
  std::ranges::stable_sort(pieces, {}, &Piece::start);
  if (!stream.tail.empty() && stream.tail_start + stream.tail.size() == pieces.front().start)
    pieces.insert(pieces.begin(), {stream.tail_start, stream.tail, 0, 0, pieces.front().ticks, 0, false});
  const uint64_t end = pieces.back().end();
  auto first = pieces.begin();  // that does not lie before the send
  for (const Send& send : stream.sends) {
    if (send.end() > end) break;
    if (send.source.node == receiver_ || send.generation != generation_) continue;
    while (first != pieces.end() && first->end() <= send.start) ++first;
    if (first == pieces.end() || first->start > send.start || stream.refusals >= kMostRefusals) continue;
    auto last = first;
    while (last->end() < send.end() && last + 1 != pieces.end() && (last + 1)->start == last->end()) ++last;
    if (last->end() < send.end()) continue;
    if (!agrees(send, std::span(first, last + 1))) {
      stream.refusals++;
      continue;
    }
    stream.refusals = 0;
    for (auto piece = first; piece <= last; ++piece) {
      const uint64_t from = std::max(piece->start, send.start), to = std::min(piece->end(), send.end());
      if (piece->offset == 0 || piece->ahead || from == to) continue;
      SentFromCall source = send.source;
      source.from = from - send.start;
      const uint64_t within = from - piece->start;
      found_.regenerable.push_back({{piece->offset + within, to - from, source},
                                    from,
                                    piece->in_message + within,
                                    true,
                                    piece->channel,
                                    piece->ticks});
    }
  }
  pieces.erase(std::ranges::find_if(pieces, &Piece::ahead), pieces.end());
  if (!pieces.empty()) end_block(stream, pieces);
}

// Forgets the sends that end in the block; keeps what was received of the one that does not, so that the rest of it can
// be compared.
void LiveRegenerable::end_block(Stream& stream, std::span<const Piece> pieces) {
  while (!stream.sends.empty() && stream.sends.front().end() <= pieces.back().end()) stream.sends.pop_front();
  std::vector<std::byte> tail;
  if (!stream.sends.empty() && stream.sends.front().start < pieces.back().end() &&
      stream.sends.front().length <= kMostTail && stream.refusals < kMostRefusals) {
    stream.tail_start = stream.sends.front().start;
    uint64_t next = stream.tail_start;
    for (const Piece& piece : pieces) {
      if (piece.end() <= next) continue;
      if (piece.start > next) {
        tail.clear();
        break;
      }
      const auto part = piece.bytes.subspan(next - piece.start);
      tail.insert(tail.end(), part.begin(), part.end());
      next = piece.end();
    }
  }
  stream.tail = std::move(tail);
}

void LiveRegenerable::match_datagram(const Piece& piece, const TransferPart& moved) {
  for (const auto* known : {&datagrams_, &datagrams_before_}) {
    const auto send = known->find(moved.hash);
    if (send == known->end()) continue;
    const Send& sent = send->second;
    if (sent.source.node != receiver_ && sent.generation == generation_ && sent.length == moved.length &&
        sent.length == piece.bytes.size() && sent.ticks <= piece.ticks && run_hash(piece.bytes, 0) == sent.hash)
      found_.regenerable.push_back({{piece.offset, sent.length, sent.source}, 0, 0, false, piece.channel, piece.ticks});
    return;
  }
}

// Notes a piece of payload in `record` for match(), or finds the datagram that it is.
void LiveRegenerable::receive(const PayloadPiece& piece, const RecordView& record, Channel& through, bool ahead) {
  const TransferPart& moved = piece.transfer;
  const Piece got{moved.offset + piece.before,
                  piece.bytes,
                  record.offset() + static_cast<uint64_t>(piece.bytes.data() - record.bytes().data()),
                  piece.before,
                  record.event().return_ticks(),
                  moved.channel,
                  ahead};
  if (!ahead) found_.received += piece.bytes.size();
  if (!through.in && !through.wants.empty() && got.start == 0) bind(through, piece, record.event());
  if (through.kind == kChannelDatagram || through.kind == kChannelSeqpacket) {
    if (!ahead) match_datagram(got, moved);
  } else if (through.in && !through.in->sends.empty() && got.end() > got.start) {
    received_[through.in.get()].push_back(got);
  }
}

void LiveRegenerable::receive_all(size_t trace, std::span<const std::byte> records, uint64_t offset, bool ahead) {
  for_each_record(records, offset, true, [&](const RecordView& record) {
    if (!record.is_event() || (record.type() != kCall && record.type() != kReturn)) return;
    trace_payloads().for_each_piece(record.event(), [&](const PayloadPiece& piece) {
      const TransferPart& moved = piece.transfer;
      if (moved.direction != kIn || (moved.flags & (kPeek | kOutOfBand | kTruncated))) return;
      if (Channel* through = channel(trace, moved.channel)) receive(piece, record, *through, ahead);
    });
  });
}

LiveRegenerable::Found LiveRegenerable::find(size_t trace, std::span<const std::byte> block, uint64_t offset,
                                             std::span<const std::byte> ahead, bool with_foreign) {
  received_.clear();
  found_ = {};
  receiver_ = traces_[trace].node;
  generation_ = traces_[trace].generation;
  receive_all(trace, block, offset, false);
  receive_all(trace, ahead, offset + block.size(), true);
  for (auto& [stream, pieces] : received_) match(*stream, pieces);
  std::ranges::sort(found_.regenerable, {}, &Regenerable::offset);
  // Processes that share a stream and count for themselves what they send may have sent the same at the same place.
  uint64_t end = 0;
  std::erase_if(found_.regenerable, [&](const Regenerable& bytes) {
    if (bytes.offset < end) return true;
    end = bytes.end();
    return false;
  });
  if (with_foreign) find_foreign(trace, block, offset);
  return std::move(found_);
}

void LiveRegenerable::find_foreign(size_t trace, std::span<const std::byte> block, uint64_t offset) {
  for_each_record(block, offset, true, [&](const RecordView& record) {
    if (!record.is_event() || (record.type() != kCall && record.type() != kReturn)) return;
    trace_payloads().for_each_piece(record.event(), [&](const PayloadPiece& piece) {
      const TransferPart& moved = piece.transfer;
      if (moved.direction != kIn || (moved.flags & (kPeek | kOutOfBand | kTruncated))) return;
      const Channel* through = channel(trace, moved.channel);
      if (!through || !is_conversation(through->kind)) return;
      const uint64_t at = record.offset() + static_cast<uint64_t>(piece.bytes.data() - record.bytes().data());
      for_each_foreign(found_.regenerable, at, at + piece.bytes.size(), [&](uint64_t from, uint64_t to) {
        Regenerable bytes{{from, to - from, {}}};
        bytes.in_message = piece.before + (from - at);
        bytes.channel = moved.channel;
        bytes.ticks = record.event().return_ticks();
        found_.foreign.push_back(bytes);
      });
    });
  });
}

std::vector<std::string> LiveRegenerable::names(size_t trace, uint64_t number) {
  const Channel* known = channel(trace, number);
  if (!known) return {};
  std::vector<std::string> list = {channel_kind_name(known->kind)};
  for (const std::string& address : {known->local, known->remote})
    if (!address.empty()) list.push_back(address);
  return list;
}

}  // namespace friday
