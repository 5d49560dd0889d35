#include "core/trace/left_out_events.h"

#include "core/trace/packed.h"

namespace friday {

const NodeInfo* sender_of(const Recording& recording, const LeftOut& range) {
  const NodeInfo* sender = recording.find_uuid(range.source.node);
  return sender && !sender->problem && sender->events > 0 ? sender : nullptr;
}

Result<void> for_each_left_out(const TraceReader& trace,
                               const std::function<void(EventView event, uint64_t address, const LeftOut&)>& each) {
  auto ranges = trace.left_out();
  const auto visit_part = [&](EventView event, PartView part, uint64_t begin) {
    for (const uint64_t end = begin + part.bytes().size();
         !ranges.empty() && ranges.front().offset >= begin && ranges.front().end() <= end; ranges = ranges.subspan(1))
      each(event, part.address() + (ranges.front().offset - begin), ranges.front());
  };
  RecordCursor cursor = trace.records();
  while (!ranges.empty() && cursor.next()) {
    const RecordView& record = cursor.record();
    if (!record.is_event() || ranges.front().offset >= record.offset() + record.bytes().size()) continue;
    for (PartView part : record.event().parts())
      if (part.kind() == format::kMemory)
        visit_part(record.event(), part,
                   record.offset() + static_cast<uint64_t>(part.bytes().data() - record.bytes().data()));
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  if (ranges.empty()) return {};
  return std::unexpected(
      bad_file(trace.node(),
               fmt::format("{} is damaged: it leaves out {} bytes at offset {} of the trace, and they are not what "
                           "an event put into the program's memory. Copy the recording again",
                           packed_path(trace.path()), ranges.front().size, ranges.front().offset)));
}

}  // namespace friday
