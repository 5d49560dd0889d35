// Payload that nobody has any more, as it has been inferred (core/infer): bytes that lead the node's replay where its
// recording says. The file cache/inferred-N for node N. It may be deleted at any time, and is then made again.
//
// Unlike payload that a replay of its senders makes again (restored.h), it need not be what was received. How sure each
// byte is stands beside it, and everything that depends on such bytes is known by its place in memory and in time.
// docs/trace-format.md documents the file and must change in the same commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/address_ranges.h"
#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/trace/packed.h"

namespace friday {

// How sure a byte is. The later one is the surer one.
enum class Sureness : uint8_t {
  free,        // nothing that was recorded depends on it: any value would do
  inferred,    // the value leads where the recording says; others do by the same path through the code, or may
  determined,  // no other value leads there by the same path
  received,    // it is what was received: a replay of its sender has made it again, or a hash says so
};
const char* name_of(Sureness sureness);

// From when on memory of the node depends on such bytes, or does not any more.
struct InferredSpan {
  uint64_t events = 0;  // number of events that the node has completed then
  uint64_t address = 0, length = 0;
  bool begins = false;
  bool operator==(const InferredSpan&) const = default;
};

struct InferredContents {
  std::vector<std::byte> bytes;     // of all ranges that the trace leaves out, one behind the other
  std::vector<Sureness> sureness;   // of each of these bytes
  std::vector<uint64_t> unchecked;  // events that send such bytes, whose hash is therefore not compared; rising
  std::vector<uint64_t> touched;    // after so many events begins code that computes with such bytes; rising
  std::vector<InferredSpan> spans;  // by `events`
};

// The file of the node whose trace this is.
Beneath inferred_payload(const Beneath& trace, NodeId node);

class InferredPayload {
 public:
  // None if there is no such file, if it is damaged, or if it is not of just what `list` leaves out.
  static std::optional<InferredPayload> open(const Beneath& file, const PackedList& list);

  const InferredContents& contents() const { return contents_; }
  // Puts what the block lacks into `bytes`, the block. `list` is what open() got.
  void fill(const PackedList& list, const PackedBlock& block, std::span<std::byte> bytes) const;
  // Whether the code that runs after so many events computes with such bytes, so that registers may depend on them.
  bool computes(uint64_t events) const;

 private:
  InferredContents contents_;
  std::vector<uint64_t> places_;  // of each range of the list in InferredContents::bytes
};

// Where the hash of what a block lacks is that of the inferred bytes, they are what was received: notes that in their
// `sureness`.
void note_what_hashes_prove(const PackedList& list, InferredContents& contents);

// Which memory of the node depends on bytes that nobody has, as the node goes on. Cheap if it is asked about later and
// later places, one after the other.
class InferredMemory {
 public:
  explicit InferredMemory(const InferredPayload& payload) : payload_(payload) {}
  // Whether [address, address + length) may depend on such bytes while the node has completed `events` events and not
  // one more: before or behind what it computes meanwhile.
  bool depends(uint64_t events, uint64_t address, uint64_t length);

 private:
  void go_to(uint64_t events);

  const InferredPayload& payload_;
  uint64_t events_ = 0;
  size_t next_ = 0;  // the first of the spans that do not count yet
  AddressRanges ranges_;
};

Result<void> write_inferred(const Beneath& file, const PackedList& list, const InferredContents& contents);

}  // namespace friday
