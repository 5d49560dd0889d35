// The bytes that a transfer moved: the one place that knows how a recording keeps them (TransferPart::representation).
// Whoever needs a transfer's bytes, or needs to know whether there are any, asks a PayloadProvider and gets the bytes,
// or a named reason why they cannot be had. Behind the provider stands one PayloadSource for each representation. A
// source that needs more than the event (another file of the recording, the trace of the peer) is an object with what
// it needs, and is given to serve().
//
// Providers and sources do not change after they are set up; then any thread may ask them. The bytes point into the
// mapped trace or into memory of the source, and are good as long as both are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/trace/record.h"

namespace friday {

// The most that a recording says of a transfer's contents.
enum class PayloadKnown {
  bytes,   // all or the first of them; the hash too, except where the receiver of a stream leaves it out
  hash,    // TransferPart::hash, and the length
  length,  // nothing but their number; TransferPart::hash is that of the transfer before
};

// Why the bytes of a transfer cannot be had.
enum class PayloadGap {
  only_hash,
  only_length,
  left_out,  // a replay of the sender makes them again (regenerable.h)
  unknown_representation
};

// For example "only its hash was kept"; follows the name of the transfer.
std::string_view gap_text(PayloadGap gap);

// Consecutive bytes from the first one of a transfer on, in pieces. Fewer than TransferPart::length if only the
// beginning is kept.
struct Payload {
  std::vector<std::span<const std::byte>> pieces;

  uint64_t size() const;
  std::vector<std::byte> joined() const;
};

using PayloadAnswer = std::expected<Payload, PayloadGap>;

// How one representation keeps payload.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  virtual PayloadKnown known() const = 0;
  // How many bytes of the event's memory parts are payload of this transfer. An event's first memory parts are the
  // payloads of its transfers, in the order of the transfers.
  virtual uint64_t bytes_in_event(const format::TransferPart&) const { return 0; }
  // `in_event`: those bytes; of what was written to the standard output or error, the bytes that were kept.
  virtual PayloadAnswer read(const format::TransferPart& transfer, Payload in_event) const = 0;
};

class PayloadProvider {
 public:
  // Knows the representations that need nothing but the event: kInline, kHashOnly and kHeaderOnly.
  PayloadProvider();

  // From now on `source` answers for this representation.
  void serve(format::Representation representation, std::shared_ptr<const PayloadSource> source);

  PayloadKnown known(const format::TransferPart& transfer) const;
  uint64_t bytes_in_event(const format::TransferPart& transfer) const;
  // The payload of the event's transfer number `ordinal`, from 0. The event must have that transfer.
  PayloadAnswer read(EventView event, uint32_t ordinal) const;

 private:
  const PayloadSource* source(const format::TransferPart& transfer) const;
  Payload in_event(EventView event, uint32_t ordinal) const;

  std::array<std::shared_ptr<const PayloadSource>, format::kInferred + 1> sources_;
};

// What the event's call has written to the standard output or error, or the first bytes of it; empty if the recording
// does not have them. Terminals are no channels, so such an event may have no transfer.
std::span<const std::byte> kept_output(EventView event);

// The provider for those who have a trace and nothing else of the recording.
const PayloadProvider& trace_payloads();

}  // namespace friday
