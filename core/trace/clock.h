// Time: from a host's ticks to its CLOCK_MONOTONIC, and from all hosts to one reference line. Values; plain arithmetic.
//
// Within a host (one boot-id) ticks are comparable as they are, and monotonic_ns() never goes back as ticks grow.
// Between hosts nothing is believed but matched messages: a message arrives after it was sent. Wall clocks only decide
// where the reference line has its zero.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shim/trace_format.h"

namespace friday {

// One host's clock, from the ClockRecords of all its nodes. Piecewise linear between records, continued at the ends.
class HostClock {
 public:
  // Add all records, then finish(). `kind` and `ticks_per_second` as in the trace's header.
  void add(const format::ClockRecord& record);
  void finish(uint32_t kind, uint64_t ticks_per_second);

  int64_t monotonic_ns(uint64_t ticks) const;
  // By the host's own CLOCK_REALTIME, as it was near that time.
  int64_t realtime_ns(uint64_t ticks) const;

 private:
  struct Point {
    uint64_t ticks;
    int64_t monotonic, realtime;
  };
  // The last point at or before `ticks`, or the first.
  const Point& point_before(uint64_t ticks) const;

  std::vector<Point> points_;
  uint32_t kind_ = format::kClockMonotonic;
  double ns_per_tick_ = 1;
};

// reference = origin_reference + (local - origin_local) * rate
struct LinearMap {
  int64_t origin_local = 0, origin_reference = 0;
  double rate = 1;
  int64_t operator()(int64_t local) const;
  LinearMap inverse() const;
  // first, then *this.
  LinearMap after(const LinearMap& first) const;
};

// A message between two hosts: sent not before `sent_ns` of the sender's clock, received not after `received_ns` of the
// receiver's.
struct CrossMessage {
  uint32_t from_host, to_host;
  int64_t sent_ns, received_ns;
};

// How one host's clock was put on the reference line. A plain value, kept in caches as it is.
struct HostAlignment {
  LinearMap map;       // its CLOCK_MONOTONIC to the reference line
  uint32_t group = 0;  // hosts that messages relate, directly or by others, have the same group: the first of them
  uint32_t by = 0;     // the host whose messages placed it; itself: the first of its group
  uint64_t to = 0, from = 0;  // messages between the two: towards this host, and from it
  int64_t margin_ns =
      0;  // what the line could be moved by, up or down; negative: the messages contradict each other by so much
};

// Maps every host's CLOCK_MONOTONIC to the reference line, which is host 0's own. A pair of hosts is related by the
// line that leaves all messages of both directions the largest equal margin; with messages of one direction only, by
// the tightest line of rate 1; hosts without a message between them, directly or by others, by `fallback` (offset of
// local to reference time, from wall clocks).
std::vector<HostAlignment> align_hosts(uint32_t hosts, std::span<const CrossMessage> messages,
                                       std::span<const int64_t> fallback);

}  // namespace friday
