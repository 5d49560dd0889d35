// What a file, or a pipe that a node has to itself, has given back: which write of the group has put it there.
//
// The trace does not say at which place of a file a read or a write stands. So a write is recognised by its contents:
// what it has written agrees with all that was read around the value, as far as the two overlap. Where both calls name
// their place in the file, that decides. If several writes agree, none is followed.
#include <sys/syscall.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "core/base/counted.h"
#include "core/origin/origin.h"
#include "core/trace/calls.h"

namespace friday {
namespace {

using How = Hop::How;
using Contents = std::vector<std::byte>;

constexpr size_t kMostWrites = 64;             // that are looked at for one hop; each takes as long as a `goto`
constexpr uint64_t kMostWritten = 1ull << 20;  // bytes of one of them
constexpr uint64_t kEnough = 8;                // bytes that must agree, if it is not all that was read and written

// Where in the file the call stands, if it says so.
std::optional<uint64_t> place_in_file(const EventView& event) {
  switch (event->call) {
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_preadv:
    case SYS_pwritev: return event.argument(3);
    case SYS_preadv2:
    case SYS_pwritev2: {  // -1: at the descriptor's position
      const uint64_t place = event.argument(3);
      return place == UINT64_MAX ? std::nullopt : std::optional(place);
    }
    default: return std::nullopt;
  }
}

// How what was written agrees with what was read.
struct Agreement {
  uint64_t at = 0;      // where the value is in what was written
  uint64_t common = 0;  // bytes around it that agree
  bool is_only_place = true;
};

// The place where the value, bytes of what was `got`, is in what was `written`, and all that overlaps agrees.
std::optional<Agreement> agreement(std::span<const std::byte> written, std::span<const std::byte> got, uint64_t offset,
                                   uint64_t size) {
  std::optional<Agreement> best;
  const auto value = got.subspan(offset, size);
  for (auto found = written.begin();; ++found) {
    found = std::search(found, written.end(), value.begin(), value.end());
    if (found == written.end()) break;
    const auto at = static_cast<uint64_t>(found - written.begin());
    const uint64_t before = std::min<uint64_t>(at, offset);
    const uint64_t common = before + std::min<uint64_t>(written.size() - at, got.size() - offset);
    if (!std::ranges::equal(written.subspan(at - before, common), got.subspan(offset - before, common))) continue;
    if (best && best->common == common) best->is_only_place = false;
    if (!best || best->common < common) best = Agreement{at, common};
  }
  const bool is_all = best && best->common == written.size() && best->common == got.size();
  if (best && best->common < kEnough && !is_all) return std::nullopt;
  return best;
}

}  // namespace

// All that the transfer with this number has put into memory.
static Contents received(const EventView& event, uint32_t number) {
  Contents all;
  for (const Received& each : received_parts(event))
    if (each.transfer && each.number == number) all.insert(all.end(), each.bytes.begin(), each.bytes.end());
  return all;
}

// The channels of a node, those that it has from its parents too.
Result<const ChannelTable*> Origin::channels_of(NodeId id) {
  if (const auto known = channels_.find(id); known != channels_.end()) return &known->second;
  ReplayNode& node = *debugger_.session().find(id);
  const NodeInfo info = node.info();
  FRIDAY_TRY(index, index_of(id));
  FRIDAY_TRY(table, ChannelTable::read(node.reader(), *index));
  if (info.parent && info.forked && debugger_.session().find(*info.parent)) {
    FRIDAY_TRY(parent, channels_of(*info.parent));
    FRIDAY_TRY(parents, index_of(*info.parent));
    if (info.fork_event < parents->event_count()) table.inherit(*parent, parents->offset(info.fork_event));
  }
  return &channels_.emplace(id, std::move(table)).first->second;
}

// The writes of all nodes of the host to this object before an event, the last first.
Result<std::vector<Origin::Write>> Origin::writes_to(const ChannelDescription& object, uint64_t before) {
  ReplaySession& session = debugger_.session();
  const std::string host = node().info().host;
  std::vector<Write> all;
  for (NodeId id : session.nodes()) {
    ReplayNode& writer = *session.find(id);
    if (writer.info().host != host) continue;
    FRIDAY_TRY(channels, channels_of(id));
    std::set<uint64_t> numbers;
    uint64_t first = ~uint64_t{0};
    for (const ChannelDescription& each : channels->all())
      if (each.kind == object.kind && each.device == object.device && each.inode == object.inode)
        numbers.insert(each.channel), first = std::min(first, each.event);
    if (numbers.empty()) continue;
    FRIDAY_TRY(index, index_of(id));
    const Schedule& schedule = session.schedule();
    for (uint64_t i = first; i < index->event_count() && schedule.position_of(id, {i}) < before; i++) {
      FRIDAY_TRY(event, index->event(writer.reader(), i));
      uint32_t number = 0;
      for (PartView part : event.parts()) {
        const auto* transfer = part.transfer();
        if (!transfer) continue;
        if (transfer->direction == format::kOut && transfer->length && numbers.contains(transfer->channel))
          all.push_back({id,
                         {i},
                         schedule.position_of(id, {i}),
                         number,
                         transfer->offset,
                         transfer->length,
                         place_in_file(event)});
        number++;
      }
    }
  }
  std::ranges::sort(all, std::greater{}, &Write::position);
  return all;
}

// What a write has written; empty if that cannot be read there.
Result<Contents> Origin::written_by(const Write& write) {
  FRIDAY_TRY_VOID(go_to_event(write.node, write.event));
  ReplayNode& writer = *debugger_.session().find(write.node);
  FRIDAY_TRY(index, index_of(write.node));
  FRIDAY_TRY(event, index->event(writer.reader(), write.event.value));
  Contents all;
  while (all.size() < std::min(write.length, kMostWritten)) {
    FRIDAY_TRY(run, sent_run(writer, event, write.number, all.size()));
    if (!run || run->size == 0) break;
    const uint64_t size = std::min(run->size, std::min(write.length, kMostWritten) - all.size());
    Contents bytes(size);
    if (!writer.read(Addr{run->low}, bytes)) break;
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// The last hop has received the bytes, which are at `offset` of the transfer, from a file or a pipe. Goes to who has
// written them.
Result<bool> Origin::from_object(const EventView& event, const ChannelDescription& object,
                                 const format::TransferPart& transfer, uint32_t number, uint64_t offset) {
  const auto ends = [&](const std::string& why) {
    hops_.back().how = How::outside;
    hops_.back().text += why;
    return false;
  };
  const auto follow = [&](const Write& write, uint64_t at) {
    return from_buffers(write.node, write.event, write.number, at, write.length - at, "written", "writes");
  };
  const uint64_t here = debugger_.session().schedule().position_of(node_, {event->index});
  FRIDAY_TRY(writes, writes_to(object, here));
  if (object.kind == format::kChannelPipe) {
    const uint64_t in_stream = transfer.offset + offset;
    std::erase_if(writes, [&](const Write& each) {
      return each.node != node_ || in_stream < each.offset || in_stream - each.offset >= each.length;
    });
    if (writes.size() != 1) return ends("; no node is known to have sent it");
    return follow(writes.front(), in_stream - writes.front().offset);
  }
  if (writes.empty()) return ends(", which no node has written before");
  const Contents got = received(event, number);
  if (offset + wanted_.size > got.size()) return ends("");
  const auto place = place_in_file(event);
  std::vector<std::pair<Write, uint64_t>> agreeing;
  const size_t looked_at = std::min(writes.size(), kMostWrites);
  for (const Write& write : std::span(writes).first(looked_at)) {
    FRIDAY_TRY(written, written_by(write));
    if (place && write.place) {
      const uint64_t at = *place + offset - *write.place;  // wraps around if it is not in what was written
      const bool has = at < written.size() && written.size() - at >= wanted_.size;
      if (!has) continue;
      if (!are_followed(std::span(written).subspan(at, wanted_.size))) break;
      agreeing.emplace_back(write, at);
      if (agreeing.size() == 1) break;  // nothing that may have written there comes behind it
      continue;
    }
    const auto agrees = agreement(written, got, offset, wanted_.size);
    if (agrees) agreeing.emplace_back(write, agrees->is_only_place ? agrees->at : ~uint64_t{0});
  }
  const std::string of_writes =
      fmt::format("{} {} to it", looked_at < writes.size() ? "the last" : "the", counted(looked_at, "write"));
  if (agreeing.empty()) return ends(fmt::format("; none of {} agrees with what was read", of_writes));
  const auto& [write, at] = agreeing.front();
  if (agreeing.size() > 1 || at == ~uint64_t{0})
    return ends(fmt::format("; not followed further: more than one place in {} agrees with what was read", of_writes));
  const NodeInfo* writer = debugger_.session().recording().find(write.node);
  hops_.back().text += fmt::format(" that node {} ({}) has written", write.node, writer->name);
  return follow(write, at);
}

}  // namespace friday
