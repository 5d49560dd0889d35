// Reconstructs the order of the bytes of a connection or pipe in one direction: which sent bytes each receive got. The
// calls of one thread are ordered, but several threads and processes may write to or read from one stream at the same
// time; then neither trace order nor clocks tell whose bytes came first. Two kinds of evidence remain: a call that
// returned before another was entered came first, and the hash of each send must equal the hash of the bytes received
// at its place. Where several calls could come next, the search tries them in turn and backtracks.
//
// The search considers only calls that overlap in time, and a bounded number of candidates for each call that it
// places. Where nothing fits (bytes of a process that is not recorded, a call interrupted by a kill, calls that the
// kernel split) it looks for a place further on, and the bytes between remain unassigned. Sends whose contents were not
// seen (sendfile) are placed by their length.
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
  uint64_t start;  // byte position in the stream
  uint32_t lane;   // index of the search lane (the calls of one thread on one channel) that the transfer belongs to
  bool proven = false;  // for a send: its hash equals that of the bytes received at its place
  uint64_t end() const { return start + transfer->length; }
};

struct StreamOrder {
  std::vector<PlacedTransfer> sends;     // by start; the last may end after the last receive
  std::vector<PlacedTransfer> receives;  // by start, without gaps
  std::vector<PlacedTransfer> peeks;     // MSG_PEEK receives, by the earliest position that they can have read
  std::vector<PlacedTransfer> skipped;   // sends whose place could not be determined
  bool fits = true;                      // false: the recorded transfers contradict each other
  bool gave_up = false;   // sends remain after the last placed one although their bytes must have been received
  uint64_t verified = 0;  // bytes whose hash was found to agree
};

struct StreamQuestion {
  const FactSet& facts;
  std::span<const uint32_t> from, to;  // channels of the two ends; for a pipe the same channels
  uint64_t limit;                      // how many bytes to look at
  bool to_the_end;                     // continue after a contradiction
  std::function<bool(uint32_t from_node, uint64_t from_time, uint32_t to_node, uint64_t to_time)> may_precede;
};

StreamOrder order_stream(const StreamQuestion& question);

// Computes run_hash of received bytes, which it reads from the payloads of the receives.
class ReceivedBytes {
 public:
  explicit ReceivedBytes(const FactSet& facts) : facts_(facts) {}
  // Starts with everything that these channels received, in the order in which the calls returned.
  ReceivedBytes(const FactSet& facts, std::span<const uint32_t> channels);

  void lay(PlacedTransfer part);  // appends a part
  void take_back() { parts_.pop_back(), loaded_ = kNone; }
  uint64_t size() const { return parts_.empty() ? 0 : parts_.back().end(); }
  const std::vector<PlacedTransfer>& parts() const { return parts_; }
  // Index of the part that contains the byte at `position`, which must be less than size().
  size_t part_at(uint64_t position) const;
  // Empty if some byte of [position, position + length) was not stored or lies past the end.
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
