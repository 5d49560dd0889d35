#include "core/trace/outputs.h"

#include <algorithm>
#include <functional>

#include "core/shim/call_flags.h"
#include "core/trace/cache.h"
#include "core/trace/calls.h"
#include "core/trace/payload.h"

namespace friday {
namespace {

// The descriptor that the call writes to; none if it does not write.
std::optional<uint64_t> target_of(const EventView& event) {
  const uint32_t flags = call_flags(event->call);
  if (flags & shim::kOut) return event.argument(0);
  if (flags & shim::kCopies) return event.argument(shim::copies_to(flags));
  return std::nullopt;
}

bool plausible(std::span<const OutputWrite> writes, const TraceReader& reader) {
  uint64_t previous = 0;
  for (const OutputWrite& write : writes) {
    if (write.event < previous || write.record < reader.first_offset() || write.record >= reader.end_offset() ||
        (write.stream != 1 && write.stream != 2))
      return false;
    previous = write.event;
  }
  return true;
}

}  // namespace

std::optional<OutputWrite> OutputFinder::add(const EventView& event, uint64_t record) {
  if (!event.has_call()) return std::nullopt;
  const auto descriptor = target_of(event);
  if (!descriptor || (*descriptor != 1 && *descriptor != 2)) return std::nullopt;
  if (event.type() == format::kRelease) {
    entered_[event.thread()] = event->index;
    return std::nullopt;
  }
  uint64_t entry = event->index;
  if (event.type() == format::kReturn)
    if (const auto released = entered_.find(event.thread()); released != entered_.end()) entry = released->second;
  if (event->result <= 0) return std::nullopt;
  // sendmmsg(2) returns the number of messages.
  uint64_t length = static_cast<uint64_t>(event->result);
  if (event->call == shim::sys::sendmmsg) {
    length = 0;
    for (PartView part : event.parts())
      if (const auto* transfer = part.transfer()) length += transfer->length;
  }
  return OutputWrite{entry, record, length, *descriptor};
}

Result<std::vector<OutputWrite>> outputs_of(const Recording& recording, const TraceReader& reader) {
  const NodeId node = reader.node();
  const uint64_t print = fingerprint(recording, {&node, 1});
  std::vector<OutputWrite> writes;
  if (auto cache = CacheReader::open(recording, cache_name("outputs", node), print))
    if (cache->take(writes) && plausible(writes, reader)) return writes;
  writes.clear();
  OutputFinder finder;
  RecordCursor cursor = reader.records();
  while (cursor.next())
    if (cursor.record().is_event())
      if (const auto write = finder.add(cursor.record().event(), cursor.record().offset())) writes.push_back(*write);
  if (cursor.error()) return std::unexpected(*cursor.error());
  std::ranges::stable_sort(writes, {}, &OutputWrite::event);  // they were found in the order of their returns
  CacheWriter cache;
  cache.add(writes);
  (void)cache.write(recording, cache_name("outputs", node), print);  // the cache only saves time
  return writes;
}

OutputText output_text(const EventView& event, const OutputWrite& write) {
  const auto bytes = kept_output(event);
  const uint64_t kept = std::min<uint64_t>(bytes.size(), write.length);
  return {std::string(reinterpret_cast<const char*>(bytes.data()), kept), write.length - kept};
}

void LineCutter::end_line(Begun& begun, uint64_t stream, bool whole, std::vector<OutputLine>& lines) {
  lines.push_back({begun.event, begun.first_event, stream, std::move(begun.text), begun.missing, whole});
  begun = Begun{};
}

void LineCutter::add(const OutputWrite& write, const OutputText& text, std::vector<OutputLine>& lines) {
  Begun& begun = begun_[write.stream];
  std::string_view left = text.bytes;
  auto touch = [&] {
    if (!begun.any) begun.first_event = write.event;
    begun.any = true;
    begun.event = write.event;
  };
  while (!left.empty()) {
    touch();
    const size_t room = kLongest - begun.text.size();
    const size_t newline = left.substr(0, room + 1).find('\n');
    const bool whole = newline != std::string_view::npos;
    const size_t taken = whole ? newline : std::min(room, left.size());
    begun.text += left.substr(0, taken);
    left.remove_prefix(taken + (whole ? 1 : 0));
    if (whole || begun.text.size() == kLongest) end_line(begun, write.stream, whole, lines);
  }
  if (text.missing == 0) return;
  // Nobody knows where the lines of the missing bytes end.
  touch();
  begun.missing = text.missing;
  end_line(begun, write.stream, false, lines);
}

void LineCutter::finish(uint64_t stream, std::vector<OutputLine>& lines) {
  if (begun_[stream].any) end_line(begun_[stream], stream, false, lines);
}

Result<OutputLog> OutputLog::open(const Recording& recording, const Schedule& schedule, std::span<const NodeId> nodes) {
  OutputLog log(schedule);
  for (NodeId node : nodes) {
    FRIDAY_TRY(reader, TraceReader::open(recording, node, TraceReader::Gaps::allow));
    FRIDAY_TRY(writes, outputs_of(recording, reader));
    // A recording that goes on may have more events than the schedule.
    std::erase_if(writes, [&](const OutputWrite& write) { return write.event >= schedule.event_count(node); });
    Source source{node, std::move(reader), std::move(writes), {}, 0, {}};
    for (size_t n = 0; n < source.writes.size(); n++) source.last[source.writes[n].stream] = n + 1;
    log.sources_.push_back(std::move(source));
    log.push(log.sources_.size() - 1);
  }
  return log;
}

void OutputLog::push(size_t index) {
  const Source& source = sources_[index];
  if (source.at == source.writes.size()) return;
  waiting_.emplace_back(schedule_->position_of(source.node, {source.writes[source.at].event}), index);
  std::ranges::push_heap(waiting_, std::greater<>());
}

void OutputLog::skip_to(uint64_t position) {
  waiting_.clear();
  for (size_t n = 0; n < sources_.size(); n++) {
    Source& source = sources_[n];
    const auto first = std::ranges::partition_point(source.writes, [&](const OutputWrite& write) {
      return schedule_->position_of(source.node, {write.event}) < position;
    });
    source.at = static_cast<size_t>(first - source.writes.begin());
    push(n);
  }
}

Result<void> OutputLog::take(Source& source) {
  const OutputWrite& write = source.writes[source.at++];
  FRIDAY_TRY(event, source.reader.event_at(write.record));
  std::vector<OutputLine> lines;
  source.cutter.add(write, output_text(event, write), lines);
  if (source.at == source.last[write.stream]) source.cutter.finish(write.stream, lines);
  for (OutputLine& line : lines) ready_.push_back({source.node, std::move(line)});
  return {};
}

Result<std::optional<OutputLog::Line>> OutputLog::next() {
  while (ready_.empty()) {
    if (waiting_.empty()) return std::nullopt;
    std::ranges::pop_heap(waiting_, std::greater<>());
    const size_t index = waiting_.back().second;
    waiting_.pop_back();
    FRIDAY_TRY_VOID(take(sources_[index]));
    push(index);
  }
  Line line = std::move(ready_.front());
  ready_.pop_front();
  return line;
}

}  // namespace friday
