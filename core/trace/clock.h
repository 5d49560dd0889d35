// Clock values: from a host's ticks to its CLOCK_MONOTONIC, and from the clocks of all hosts to one common time line,
// the reference line. All types are plain values; nothing here locks or allocates shared state.
//
// Within a host (one boot id) ticks are directly comparable, and monotonic_ns() never decreases as ticks grow. Between
// hosts only matched messages are evidence: a message arrives after it was sent. Wall clocks are used only where no
// messages connect two hosts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shim/trace_format.h"

namespace friday {

// One host's clock, built from the ClockRecords of all its nodes. It is piecewise linear between the records and
// extrapolated before the first and after the last.
class HostClock {
 public:
  // Call add() for every record, then finish() once. `kind` and `ticks_per_second` come from the trace's header.
  void add(const format::ClockRecord& record);
  void finish(uint32_t kind, uint64_t ticks_per_second);

  int64_t monotonic_ns(uint64_t ticks) const;
  // CLOCK_REALTIME of this host at `ticks`, in ns since 1970, from the nearest ClockRecord at or before that time.
  int64_t realtime_ns(uint64_t ticks) const;

 private:
  struct Point {
    uint64_t ticks;
    int64_t monotonic, realtime;
  };
  // The last point at or before `ticks`, or the first point if all are later.
  const Point& point_before(uint64_t ticks) const;

  std::vector<Point> points_;
  uint32_t kind_ = format::kClockMonotonic;
  double ns_per_tick_ = 1;
};

// Computes reference = origin_reference + (local - origin_local) * rate.
struct LinearMap {
  int64_t origin_local = 0, origin_reference = 0;
  double rate = 1;
  int64_t operator()(int64_t local) const;
  LinearMap inverse() const;
  // The composition that applies `first`, then this map.
  LinearMap after(const LinearMap& first) const;
};

// A message between two hosts. It was sent at `sent_ns` of the sender's CLOCK_MONOTONIC or later, and received at
// `received_ns` of the receiver's or earlier.
struct CrossMessage {
  uint32_t from_host, to_host;
  int64_t sent_ns, received_ns;
};

// The result of aligning one host's clock with the reference line. A trivially copyable value, which caches store as it
// is.
struct HostAlignment {
  LinearMap map;  // from this host's CLOCK_MONOTONIC to the reference line
  // Hosts connected by messages, directly or through other hosts, form a group. It is named by its first host.
  uint32_t group = 0;
  uint32_t by = 0;  // the host whose messages placed this one; the host itself if it is the first of its group
  uint64_t to = 0, from = 0;  // how many messages from `by` to this host, and from this host to `by`
  // How far the clock could be shifted either way without contradicting a message. Negative: the messages contradict
  // each other by this much.
  int64_t margin_ns = 0;
};

// Maps every host's CLOCK_MONOTONIC to the reference line, which is the clock of host 0. For two hosts with messages in
// both directions, the line chosen leaves every message the largest equal margin. With messages in one direction only,
// it is the tightest line of rate 1. A host that no messages connect to an earlier one is placed by `fallback`: the
// offset in ns to add to its local time, estimated from wall clocks.
std::vector<HostAlignment> align_hosts(uint32_t hosts, std::span<const CrossMessage> messages,
                                       std::span<const int64_t> fallback);

}  // namespace friday
