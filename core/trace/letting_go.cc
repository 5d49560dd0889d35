#include "core/trace/letting_go.h"

#include <algorithm>
#include <cerrno>
#include <map>

#include "core/base/beneath.h"
#include "core/base/printable.h"
#include "core/trace/channels.h"
#include "core/trace/leaving_out.h"
#include "core/trace/logical_time.h"
#include "core/trace/packed.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"
#include "core/trace/regenerable.h"

namespace friday {

namespace {

using KnownSenders = std::map<NodeId, std::vector<Regenerable>>;

bool is_named(const ChannelDescription& channel, std::span<const std::string> patterns) {
  const std::string names[] = {channel_kind_name(channel.kind), text(channel.local), text(channel.remote)};
  return friday::is_named(patterns, names);
}

Result<std::vector<LeftOut>> ranges_of(const Recording& recording, const TraceReader& trace,
                                       std::span<const std::string> patterns, std::span<const Regenerable> known) {
  FRIDAY_TRY(index, TraceIndex::load_or_build(recording, trace));
  FRIDAY_TRY(channels, ChannelTable::read(trace, index));
  std::vector<Regenerable> foreign;
  RecordCursor cursor = trace.records();
  while (cursor.next()) {
    const RecordView& record = cursor.record();
    if (!record.is_event()) continue;
    trace_payloads().for_each_piece(record.event(), [&](const PayloadPiece& piece) {
      const ChannelDescription* channel = channels.find(piece.transfer.channel, record.offset());
      if (!channel || !is_conversation(channel->kind) || !is_named(*channel, patterns) ||
          piece.transfer.flags & (format::kPeek | format::kOutOfBand))
        return;
      const uint64_t at = record.offset() + static_cast<uint64_t>(piece.bytes.data() - record.bytes().data());
      for_each_foreign(known, at, at + piece.bytes.size(), [&](uint64_t from, uint64_t to) {
        foreign.push_back({{from, to - from, {}}});
        foreign.back().in_message = piece.before + (from - at);
      });
    });
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  return choose_left_out(foreign);
}

Result<void> replace(const Beneath& trace, const TraceReader& reader, std::span<const LeftOut> ranges) {
  const Beneath made = trace.beside("let-go");
  remove_beneath(made);  // what is left of one that was killed
  if (auto written = write_without(reader, ranges, made); !written) {
    remove_beneath(made);
    return written;
  }
  FRIDAY_TRY(directory, open_directory_beneath(made.directory()));
  if (::renameat(directory.get(), "let-go", directory.get(), "trace.zst") != 0)
    return fail_errno(errno, fmt::format("cannot rename {}", made.path()));
  remove_beneath(trace);
  return {};
}

Result<void> check_complete(const Recording& recording) {
  for (const NodeInfo& node : recording.nodes()) {
    FRIDAY_TRY_VOID(check_ended(node));
    if (node.left_out)
      return fail(ErrorCode::unsupported,
                  "node {} ({}): the recording leaves out payload already, and once only can something be left out",
                  node.id, printable(node.name));
  }
  return {};
}

}  // namespace

Result<std::vector<LetGo>> let_payload_go(const Recording& recording, std::span<const std::string> patterns) {
  FRIDAY_TRY_VOID(check_complete(recording));
  FRIDAY_TRY(order, Schedule::load_or_compute(recording));
  FRIDAY_TRY(known, find_regenerable(recording, order));
  std::vector<LetGo> done;
  for (const NodeInfo& node : recording.nodes()) {
    FRIDAY_TRY(reader, TraceReader::open(recording, node.id));
    FRIDAY_TRY(ranges, ranges_of(recording, reader, patterns, known[node.id]));
    if (ranges.empty()) continue;
    const Beneath trace = recording.trace(node.id);
    LetGo let_go{node.id, 0, stored_bytes(trace), 0};
    for (const LeftOut& range : ranges) let_go.bytes += range.size;
    FRIDAY_TRY_VOID(replace(trace, reader, ranges));
    let_go.after = stored_bytes(trace);
    done.push_back(let_go);
  }
  return done;
}

}  // namespace friday
