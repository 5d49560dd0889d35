#include "core/trace/index.h"

#include <algorithm>

#include "core/trace/cache.h"

namespace friday {

namespace {

// Whether the offsets can belong to this trace: ascending and inside it. The records themselves are checked when they
// are read.
bool plausible(std::span<const uint64_t> offsets, const TraceReader& reader) {
  uint64_t previous = 0;
  for (uint64_t offset : offsets) {
    if (offset <= previous || offset < reader.first_offset() || offset >= reader.end_offset()) return false;
    previous = offset;
  }
  return true;
}

}  // namespace

Result<TraceIndex> TraceIndex::build(const TraceReader& reader) {
  TraceIndex index;
  std::unordered_map<uint32_t, size_t> places;
  RecordCursor cursor = reader.records();
  while (cursor.next()) {
    const RecordView& record = cursor.record();
    if (!record.is_event()) {
      index.others_.push_back(record.offset());
      continue;
    }
    auto [place, is_new] = places.try_emplace(record.event().thread(), index.threads_.size());
    if (is_new) index.threads_.push_back({record.event().thread(), {}});
    index.threads_[place->second].events.push_back(index.events_.size());
    index.events_.push_back(record.offset());
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  std::ranges::sort(index.threads_, {}, &Thread::thread);
  return index;
}

Result<TraceIndex> TraceIndex::load_or_build(const Recording& recording, const TraceReader& reader) {
  NodeId node = reader.node();
  uint64_t print = fingerprint(recording, {&node, 1});
  if (auto cache = CacheReader::open(recording, cache_name("index", node), print)) {
    TraceIndex index;
    std::vector<uint32_t> numbers;
    bool good = cache->take(index.events_) && cache->take(index.others_) && cache->take(numbers) &&
                plausible(index.events_, reader) && plausible(index.others_, reader);
    for (size_t n = 0; good && n < numbers.size(); ++n) {
      Thread& thread = index.threads_.emplace_back(Thread{numbers[n], {}});
      good = cache->take(thread.events) &&
             (thread.events.empty() || std::ranges::max(thread.events) < index.events_.size());
    }
    if (good) return index;
  }
  FRIDAY_TRY(index, build(reader));
  CacheWriter writer;
  writer.add(index.events_);
  writer.add(index.others_);
  std::vector<uint32_t> numbers;
  for (const Thread& thread : index.threads_) numbers.push_back(thread.thread);
  writer.add(numbers);
  for (const Thread& thread : index.threads_) writer.add(thread.events);
  (void)writer.write(recording, cache_name("index", node),
                     print);  // fails for a read-only recording, which then has no cache
  return std::move(index);
}

const TraceIndex::Thread* TraceIndex::thread(uint32_t number) const {
  auto found = std::ranges::lower_bound(threads_, number, {}, &Thread::thread);
  return found != threads_.end() && found->thread == number ? &*found : nullptr;
}

Result<EventView> TraceIndex::event(const TraceReader& reader, uint64_t index) const {
  if (index >= events_.size())
    return std::unexpected(Error{ErrorCode::not_found,
                                 fmt::format("there is no event {}; the trace has {}", index, events_.size()),
                                 reader.node().value, index});
  FRIDAY_TRY(event, reader.event_at(events_[index]));
  if (event->index != index)
    return std::unexpected(Error{
        ErrorCode::bad_input,
        fmt::format("event {} missing: found {}. The trace was altered; copy the recording again", index, event->index),
        reader.node().value, index});
  return event;
}

Result<std::vector<const format::ModuleRecord*>> TraceIndex::modules(const TraceReader& reader) const {
  std::vector<const format::ModuleRecord*> modules;
  for (uint64_t offset : others_) {
    FRIDAY_TRY(record, reader.record_at(offset));
    if (const auto* module = record.module()) modules.push_back(module);
  }
  return modules;
}

}  // namespace friday
