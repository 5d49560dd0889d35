// Where each event of a trace stands: the file offset of every event, the events of each thread, and the offsets of all
// records that are not events. Built by one checked pass over the trace and kept in the recording's cache directory; a
// cache that does not match the trace as it is now is ignored. A TraceIndex is a value and holds no pointers into the
// trace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

class TraceIndex {
 public:
  struct Thread {
    uint32_t thread;
    std::vector<uint64_t> events;  // event indices, ascending
  };

  // Loads the index from the cache if that is current. Otherwise calls build() and writes the cache, if the directory
  // is writable.
  static Result<TraceIndex> load_or_build(const Recording& recording, const TraceReader& reader);
  static Result<TraceIndex> build(const TraceReader& reader);

  uint64_t event_count() const { return events_.size(); }
  // Offset of event `index` in the trace file; `index` must be less than event_count().
  uint64_t offset(uint64_t index) const { return events_[index]; }
  std::span<const uint64_t> other_records() const { return others_; }
  const std::vector<Thread>& threads() const { return threads_; }  // ordered by thread number
  const Thread* thread(uint32_t number) const;

  // The event, read through `reader`, which must be the reader that this index was made for.
  Result<EventView> event(const TraceReader& reader, uint64_t index) const;
  // All modules: those of the start image and those mapped later.
  Result<std::vector<const format::ModuleRecord*>> modules(const TraceReader& reader) const;

 private:
  std::vector<uint64_t> events_, others_;
  std::vector<Thread> threads_;
};

}  // namespace friday
