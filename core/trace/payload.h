// The bytes that a transfer moved: the one place that knows how a recording keeps them (TransferPart::representation).
// Whoever needs a transfer's bytes, or needs to know whether there are any, asks a PayloadProvider and gets the bytes,
// or a named reason why they cannot be had. Behind the provider stands one PayloadSource for each representation. A
// source that needs more than the event (another file of the recording, the trace of the peer) is an object with what
// it needs, and is given to serve().
//
// Providers and sources do not change after they are set up; then any thread may ask them. The bytes point into the
// mapped trace or into memory of the source, and are good as long as both are.
#pragma once

#include <algorithm>
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
  bytes,   // all of them; the hash too, except where the receiver of a stream leaves it out
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
  virtual PayloadKnown known(const format::TransferPart&) const = 0;
  // How many bytes of the event's memory parts are payload of this transfer. An event's first memory parts are the
  // payloads of its transfers, in the order of the transfers.
  virtual uint64_t bytes_in_event(const format::TransferPart&) const { return 0; }
  // `in_event`: those bytes; of what was written to the standard output or error, the bytes that were kept.
  virtual PayloadAnswer read(const format::TransferPart& transfer, Payload in_event) const = 0;
};

// Consecutive bytes of a transfer's payload that stand in one memory part of its event.
struct PayloadPiece {
  uint32_t ordinal;  // of the transfer in its event
  const format::TransferPart& transfer;
  uint64_t before;  // bytes of the transfer in the parts before
  PartView part;    // of which `bytes` are the first
  std::span<const std::byte> bytes;
};

class PayloadProvider {
 public:
  // Knows the representations that need nothing but the event: kInline, kHashOnly, kHeaderOnly and kBeginning.
  PayloadProvider();

  // From now on `source` answers for this representation.
  void serve(format::Representation representation, std::shared_ptr<const PayloadSource> source);

  PayloadKnown known(const format::TransferPart& transfer) const;
  uint64_t bytes_in_event(const format::TransferPart& transfer) const;
  // Calls visit(PayloadPiece) for all payload that stands in the event's memory parts, in their order.
  template <typename Visit>
  void for_each_piece(EventView event, Visit&& visit) const;
  // The payload of the event's transfer number `ordinal`, from 0. The event must have that transfer.
  PayloadAnswer read(EventView event, uint32_t ordinal) const;

 private:
  // The size of the buffer into which the event's call receives, if its arguments say it. Earlier recorders noted the
  // full length of a datagram that did not fit.
  static uint64_t room_of(EventView event);
  const PayloadSource* source(const format::TransferPart& transfer) const;
  Payload in_event(EventView event, uint32_t ordinal) const;

  std::array<std::shared_ptr<const PayloadSource>, format::kBeginning + 1> sources_;
};

// A transfer of readv(2), for example, has several memory parts; two transfers never share one.
template <typename Visit>
void PayloadProvider::for_each_piece(EventView event, Visit&& visit) const {
  const PartRange parts = event.parts();
  auto next = parts.begin();  // behind the part of the current transfer
  const format::TransferPart* transfer = nullptr;
  uint32_t ordinal = 0;
  uint64_t before = 0, left = 0;  // of the current transfer
  for (PartView part : parts) {
    if (part.kind() != format::kMemory) continue;
    for (; left == 0 && next != parts.end(); ++next) {
      const format::TransferPart* found = (*next).transfer();
      if (!found) continue;
      ordinal = transfer ? ordinal + 1 : 0;
      transfer = found;
      before = 0;
      left = std::min(bytes_in_event(*transfer), room_of(event));
    }
    if (left == 0) return;
    const uint64_t size = std::min<uint64_t>(left, part.bytes().size());
    if (size > 0) visit(PayloadPiece{ordinal, *transfer, before, part, part.bytes().first(size)});
    before += size;
    left -= size;
  }
}

// What the event's call has written to the standard output or error, or the first bytes of it; empty if the recording
// does not have them. Terminals are no channels, so such an event may have no transfer.
std::span<const std::byte> kept_output(EventView event);

// The provider for those who have a trace and nothing else of the recording.
const PayloadProvider& trace_payloads();

}  // namespace friday
