// The lines that a node writes while it is recorded, as they are completed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/trace/outputs.h"
#include "core/trace/trace_tail.h"

namespace friday {

inline constexpr std::chrono::milliseconds kBetweenLooks{50};   // from one look at growing traces to the next,
inline constexpr std::chrono::milliseconds kLookForNodes{500};  // and for new nodes

struct TimedLine {
  int64_t ns;  // CLOCK_MONOTONIC of the recorded machine, at the entry of the write that completed the line
  NodeId node;
  OutputLine line;
};

// One node whose trace grows.
class FollowedNode {
 public:
  FollowedNode(const Beneath& trace, NodeId node) : node_(node), tail_(trace, node) {}

  // Appends the lines that were completed since the last call. `also` is called for each record before.
  Result<void> poll(std::vector<TimedLine>& lines, const TraceTail::Visit& also = {}) {
    return tail_.poll([&](const RecordView& record) {
      if (const auto* clock = record.clock()) clock_ = *clock;
      if (also) also(record);
      if (!record.is_event()) return;
      const EventView event = record.event();
      // As in the order of a finished recording: what sends nothing, as the first call of a program, has happened when
      // it has returned.
      if (!first_ns_) first_ns_ = ns_of(event.return_ticks());
      const auto write = finder_.add(event, record.offset());
      if (!write) return;
      last_ns_ = ns_of(event->entry_ticks);
      std::vector<OutputLine> found;
      cutter_.add(*write, output_text(event, *write), found);
      append(std::move(found), lines);
    });
  }
  void finish(std::vector<TimedLine>& lines) {
    std::vector<OutputLine> found;
    for (uint64_t stream : {1, 2}) cutter_.finish(stream, found);
    append(std::move(found), lines);
  }
  std::optional<int64_t> first_ns() const { return first_ns_; }
  // During poll(), for `also`.
  const TraceTail& tail() const { return tail_; }
  // CLOCK_REALTIME in nanoseconds, by the last reading of the clocks in the trace.
  int64_t real_ns_of(uint64_t ticks) const { return ns_of(ticks) + clock_.realtime_ns - clock_.monotonic_ns; }

 private:
  int64_t ns_of(uint64_t ticks) const {
    const double rate = static_cast<double>(std::max<uint64_t>(tail_.header().ticks_per_second, 1));
    return clock_.monotonic_ns +
           static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - clock_.ticks)) / rate * 1e9);
  }
  void append(std::vector<OutputLine> found, std::vector<TimedLine>& lines) const {
    for (OutputLine& line : found) lines.push_back({last_ns_, node_, std::move(line)});
  }

  NodeId node_;
  TraceTail tail_;
  format::ClockRecord clock_{};
  OutputFinder finder_;
  LineCutter cutter_;
  std::optional<int64_t> first_ns_;
  int64_t last_ns_ = 0;
};

}  // namespace friday
