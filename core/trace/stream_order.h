// The order of the bytes of a connection or pipe in one direction: which sent bytes each receive got. Each thread's
// calls are in order, but several threads and processes may write or read one stream at once, and then neither the
// order of a trace nor a clock says whose bytes came first. What says it: a call that returned before another was
// entered was first, and each send's hash must be that of the bytes which were received at its place. Where several of
// them could come next, one is tried after the other.
//
// The search looks at calls that overlap only, and at no more than a fixed number of them for each that it places.
// Where nothing fits (bytes of a process that is not recorded, a call cut off by a kill, calls that the kernel cut up)
// it looks for a place behind, and what lies between stays unknown. Sends that nobody saw (sendfile) are placed by
// their length.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/trace/facts.h"

namespace friday {

struct PlacedTransfer {
  uint32_t channel;
  const Transfer* transfer;
  uint64_t start;       // in the stream
  uint32_t lane;        // of the search: which thread's
  bool proven = false;  // a send whose hash is that of the bytes received there
  uint64_t end() const { return start + transfer->length; }
};

struct StreamOrder {
  std::vector<PlacedTransfer> sends;     // by start; the last may end behind the last receive
  std::vector<PlacedTransfer> receives;  // by start, each where the one before ends
  std::vector<PlacedTransfer> peeks;     // by start: where it looked at the earliest
  std::vector<PlacedTransfer> skipped;   // sends whose place is not known
  bool fits = true;                      // false: something of it contradicts
  bool gave_up = false;                  // behind the last send there are more that should have been received
  uint64_t verified = 0;                 // bytes whose hash was found right
};

struct StreamQuestion {
  const FactSet& facts;
  std::span<const uint32_t> from, to;  // channels of the two ends; of a pipe the same ones
  uint64_t limit;                      // bytes to look at
  bool to_the_end;                     // goes on behind what contradicts
  std::function<bool(uint32_t from_node, uint64_t from_time, uint32_t to_node, uint64_t to_time)> may_precede;
};

StreamOrder order_stream(const StreamQuestion& question);

// run_hash of received bytes, read from the receivers' payloads.
class ReceivedBytes {
 public:
  explicit ReceivedBytes(const FactSet& facts) : facts_(facts) {}
  // All that these channels received, in the order in which the calls returned.
  ReceivedBytes(const FactSet& facts, std::span<const uint32_t> channels);

  void lay(PlacedTransfer part);  // at the end
  void take_back() { parts_.pop_back(), loaded_ = kNone; }
  uint64_t size() const { return parts_.empty() ? 0 : parts_.back().end(); }
  const std::vector<PlacedTransfer>& parts() const { return parts_; }
  // Index of the part that holds the byte at `position`, which must be below size().
  size_t part_at(uint64_t position) const;
  // Nothing if some of [position, position + length) was not kept or lies past the end.
  std::optional<uint64_t> hash(uint64_t position, uint64_t length, uint64_t seed);

 private:
  static constexpr size_t kNone = ~size_t{0};
  void load(size_t index);

  const FactSet& facts_;
  std::vector<PlacedTransfer> parts_;
  size_t loaded_ = kNone;
  std::vector<std::span<const std::byte>> pieces_;
  std::vector<std::byte> buffer_;
};

}  // namespace friday
