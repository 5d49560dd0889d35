#include "core/trace/channels.h"

#include <algorithm>

namespace friday {

void ChannelTable::add(const RecordView& record) {
  const auto* channel = record.channel();
  if (!channel) return;
  known_[channel->channel].push_back({channel->channel, channel->event, record.offset(), channel->kind, channel->fd,
                                      parse_address(channel->local), parse_address(channel->remote), channel->device,
                                      channel->inode});
}

void ChannelTable::inherit(const ChannelTable& parent, uint64_t offset) {
  for (const auto& [number, descriptions] : parent.known_) {
    const ChannelDescription* known = parent.find(number, offset);
    if (!known) continue;
    auto& own = known_[number];
    own.insert(own.begin(), *known);
    own.front().event = own.front().offset = 0;
  }
}

Result<ChannelTable> ChannelTable::read(const TraceReader& reader, const TraceIndex& index) {
  ChannelTable table;
  for (const uint64_t offset : index.other_records()) {
    auto record = reader.record_at(offset);
    if (!record) return std::unexpected(record.error());
    table.add(*record);
  }
  return table;
}

const ChannelDescription* ChannelTable::find(uint64_t channel, uint64_t offset) const {
  const auto known = known_.find(channel);
  if (known == known_.end()) return nullptr;
  const auto after = std::ranges::upper_bound(known->second, offset, {}, &ChannelDescription::offset);
  return after == known->second.begin() ? nullptr : &*std::prev(after);
}

std::string ChannelTable::peer_text(PartView transfer, uint64_t offset) const {
  if (const auto* peer = transfer.peer()) return text(parse_address(*peer));
  const ChannelDescription* channel = find(transfer.transfer()->channel, offset);
  return channel && channel->remote.known() ? text(channel->remote) : std::string();
}

std::vector<ChannelDescription> ChannelTable::all() const {
  std::vector<ChannelDescription> list;
  for (const auto& [number, descriptions] : known_) list.push_back(descriptions.back());
  return list;
}

bool is_conversation(uint32_t kind) {
  using namespace format;
  return kind == kChannelStream || kind == kChannelDatagram || kind == kChannelSeqpacket || kind == kChannelPipe;
}

const char* channel_kind_name(uint32_t kind) {
  switch (kind) {
    case format::kChannelFile: return "file";
    case format::kChannelStream: return "stream";
    case format::kChannelDatagram: return "datagram";
    case format::kChannelSeqpacket: return "seqpacket";
    case format::kChannelPipe: return "pipe";
    case format::kChannelDevice: return "device";
    case format::kChannelEvent: return "event";
    case format::kChannelTerminal: return "terminal";
    case format::kChannelListen: return "listening";
    default: return "unknown";
  }
}

}  // namespace friday
