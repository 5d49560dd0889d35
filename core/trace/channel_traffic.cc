#include "core/trace/channel_traffic.h"

#include <algorithm>
#include <span>

#include "core/trace/payload.h"

namespace friday {

namespace {

constexpr uint64_t kMostSeconds = 2;  // over which ChannelTraffic::Direction::most is counted

class TrafficWalk {
 public:
  explicit TrafficWalk(const TraceReader& reader)
      : left_out_(reader.left_out()),
        span_(std::clamp<uint64_t>(reader.header().ticks_per_second, 1, uint64_t{1} << 40) * kMostSeconds) {}

  void on_event(const RecordView& record) {
    const EventView event = record.event();
    std::vector<State*> received;  // by the ordinal of the transfer
    for (PartView part : event.parts()) {
      const format::TransferPart* moved = part.transfer();
      if (!moved) continue;
      State& state = states_[moved->channel];
      const bool in = moved->direction == format::kIn;
      received.push_back(in && !(moved->flags & format::kPeek) && moved->length > 0 ? &state : nullptr);
      if (!(moved->flags & format::kPeek)) add(in ? state.in : state.out, *moved, event.return_ticks());
    }
    if (left_out_.empty() && !any_) return;
    std::vector<uint64_t> lacks(received.size());
    trace_payloads().for_each_piece(event, [&](const PayloadPiece& piece) {
      lacks[piece.ordinal] += take(piece, record, states_[piece.transfer.channel].traffic);
    });
    for (size_t n = 0; n < received.size(); n++)
      if (received[n]) note(received[n]->traffic, event->index, lacks[n] > 0);
  }

  std::vector<ChannelTraffic> finish(const ChannelTable& channels) {
    std::vector<ChannelTraffic> list;
    for (auto& [number, state] : states_) {
      ChannelTraffic& traffic = state.traffic;
      traffic.channel = number;
      traffic.in = state.in.direction;
      traffic.out = state.out.direction;
      if (const ChannelDescription* known = channels.find(number)) traffic.about = *known;
      if (traffic.in.bytes + traffic.out.bytes > 0) list.push_back(std::move(traffic));
    }
    return list;
  }

 private:
  struct Rate {
    ChannelTraffic::Direction direction;
    uint64_t span = 0, bytes = 0;  // which 2 s these are, and what was moved in them
  };
  struct State {
    ChannelTraffic traffic;
    Rate in, out;
  };

  void add(Rate& rate, const format::TransferPart& moved, uint64_t ticks) const {
    rate.direction.bytes += moved.length;
    rate.direction.messages += moved.length > 0;
    if (ticks / span_ != rate.span) rate.bytes = 0;
    rate.span = ticks / span_;
    rate.bytes += moved.length;
    rate.direction.most = std::max(rate.direction.most, static_cast<double>(rate.bytes) / kMostSeconds);
  }

  // How many bytes of the piece are left out.
  uint64_t take(const PayloadPiece& piece, const RecordView& record, ChannelTraffic& traffic) {
    const uint64_t begin = record.offset() + static_cast<uint64_t>(piece.bytes.data() - record.bytes().data());
    uint64_t bytes = 0;
    for (; !left_out_.empty() && left_out_.front().offset < begin + piece.bytes.size();
         left_out_ = left_out_.subspan(1)) {
      if (left_out_.front().offset < begin) continue;
      bytes += left_out_.front().size;
      traffic.left_with[left_out_.front().source.node] += left_out_.front().size;
    }
    traffic.left_out += bytes;
    any_ |= bytes > 0;
    return bytes;
  }

  static void note(ChannelTraffic& traffic, uint64_t event, bool left_out) {
    if (left_out == traffic.leaves_out) return;
    traffic.leaves_out = left_out;
    traffic.last_change = {event, left_out};
    if (traffic.changed++ < kMostChangesListed) traffic.changes.push_back({event, left_out});
  }

  std::span<const LeftOut> left_out_;  // what is still to come
  bool any_ = false;
  const uint64_t span_;
  std::map<uint64_t, State> states_;
};

}  // namespace

Result<std::vector<ChannelTraffic>> channel_traffic(const TraceReader& reader, ChannelTable& channels) {
  TrafficWalk walk(reader);
  RecordCursor cursor = reader.records();
  while (cursor.next()) {
    channels.add(cursor.record());
    if (cursor.record().is_event()) walk.on_event(cursor.record());
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  return walk.finish(channels);
}

}  // namespace friday
