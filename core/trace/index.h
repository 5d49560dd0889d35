// Where each event of a trace stands: one offset an event, the events of each thread, and the records that are no
// events. Built by one checked walk over the trace and kept in the recording's cache directory; a cache that does not
// belong to the trace as it is now is ignored. A TraceIndex is a value without pointers into the trace.
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
    std::vector<uint64_t> events;  // indices, rising
  };

  // From the cache when it fits, else by build(), leaving a cache behind if the directory can be written.
  static Result<TraceIndex> load_or_build(const Recording& recording, const TraceReader& reader);
  static Result<TraceIndex> build(const TraceReader& reader);

  uint64_t event_count() const { return events_.size(); }
  // Offset in the trace file of event `index`, which must be below event_count().
  uint64_t offset(uint64_t index) const { return events_[index]; }
  std::span<const uint64_t> other_records() const { return others_; }
  const std::vector<Thread>& threads() const { return threads_; }  // by number
  const Thread* thread(uint32_t number) const;

  // The event, read through `reader` (the one this index was made for).
  Result<EventView> event(const TraceReader& reader, uint64_t index) const;
  // All modules, those mapped later included.
  Result<std::vector<const format::ModuleRecord*>> modules(const TraceReader& reader) const;

 private:
  std::vector<uint64_t> events_, others_;
  std::vector<Thread> threads_;
};

}  // namespace friday
