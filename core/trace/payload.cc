#include "core/trace/payload.h"

#include <sys/syscall.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace friday {

namespace {

// What a receiver records: the bytes stand in the event.
class InlinePayload : public PayloadSource {
 public:
  PayloadKnown known(const format::TransferPart&) const override { return PayloadKnown::bytes; }
  uint64_t bytes_in_event(const format::TransferPart& transfer) const override { return transfer.length; }
  PayloadAnswer read(const format::TransferPart&, Payload in_event) const override { return in_event; }
};

// What a sender records: replay computes the bytes again. Only of the standard output and error they are kept, too.
class HashedPayload : public PayloadSource {
 public:
  PayloadKnown known(const format::TransferPart&) const override { return PayloadKnown::hash; }
  PayloadAnswer read(const format::TransferPart&, Payload in_event) const override {
    if (in_event.pieces.empty()) return std::unexpected(PayloadGap::only_hash);
    return in_event;
  }
};

// What the program never had in its memory, or could still change: see trace-format.md.
class UnseenPayload : public PayloadSource {
 public:
  PayloadKnown known(const format::TransferPart&) const override { return PayloadKnown::length; }
  PayloadAnswer read(const format::TransferPart&, Payload) const override {
    return std::unexpected(PayloadGap::only_length);
  }
};

// What a schedule keeps of a long message at its receiver: the first bytes and, of a datagram, the hash of all.
class BeginningOfPayload : public PayloadSource {
 public:
  PayloadKnown known(const format::TransferPart& transfer) const override {
    return transfer.hash ? PayloadKnown::hash : PayloadKnown::length;
  }
  uint64_t bytes_in_event(const format::TransferPart& transfer) const override { return transfer.kept; }
  PayloadAnswer read(const format::TransferPart&, Payload in_event) const override { return in_event; }
};

const format::TransferPart* transfer_of(EventView event, uint32_t ordinal) {
  for (PartView part : event.parts())
    if (const format::TransferPart* transfer = part.transfer(); transfer && ordinal-- == 0) return transfer;
  return nullptr;
}

}  // namespace

std::string_view gap_text(PayloadGap gap) {
  switch (gap) {
    case PayloadGap::only_hash: return "only its hash was kept";
    case PayloadGap::only_length: return "only its length was kept";
    case PayloadGap::left_out: return "the recording leaves it out; `friday restore` makes it again";
    case PayloadGap::unknown_representation: break;
  }
  return "it is kept in a way that this version of Friday does not know";
}

uint64_t Payload::size() const {
  uint64_t size = 0;
  for (std::span<const std::byte> piece : pieces) size += piece.size();
  return size;
}

std::vector<std::byte> Payload::joined() const {
  std::vector<std::byte> bytes;
  bytes.reserve(size());
  for (std::span<const std::byte> piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

PayloadProvider::PayloadProvider() {
  serve(format::kInline, std::make_shared<InlinePayload>());
  serve(format::kHashOnly, std::make_shared<HashedPayload>());
  serve(format::kHeaderOnly, std::make_shared<UnseenPayload>());
  serve(format::kBeginning, std::make_shared<BeginningOfPayload>());
}

void PayloadProvider::serve(format::Representation representation, std::shared_ptr<const PayloadSource> source) {
  sources_.at(representation) = std::move(source);
}

// Null if nobody answers for the transfer's representation.
const PayloadSource* PayloadProvider::source(const format::TransferPart& transfer) const {
  return transfer.representation < sources_.size() ? sources_[transfer.representation].get() : nullptr;
}

PayloadKnown PayloadProvider::known(const format::TransferPart& transfer) const {
  const PayloadSource* from = source(transfer);
  return from ? from->known(transfer) : PayloadKnown::length;
}

uint64_t PayloadProvider::bytes_in_event(const format::TransferPart& transfer) const {
  const PayloadSource* from = source(transfer);
  return from ? from->bytes_in_event(transfer) : 0;
}

std::span<const std::byte> kept_output(EventView event) {
  for (PartView part : event.parts())
    if (part.kind() == format::kOutput) return part.bytes();
  return {};
}

uint64_t PayloadProvider::room_of(EventView event) {
  return event.has_call() && event->call == SYS_recvfrom ? event.argument(2) : ~uint64_t{0};
}

Payload PayloadProvider::in_event(EventView event, uint32_t ordinal) const {
  Payload payload;
  for_each_piece(event, [&](const PayloadPiece& piece) {
    if (piece.ordinal == ordinal) payload.pieces.push_back(piece.bytes);
  });
  return payload;
}

PayloadAnswer PayloadProvider::read(EventView event, uint32_t ordinal) const {
  const format::TransferPart* transfer = transfer_of(event, ordinal);
  FRIDAY_CHECK(transfer) << "event " << event->index << " has no transfer " << ordinal;
  const PayloadSource* from = source(*transfer);
  if (!from) return std::unexpected(PayloadGap::unknown_representation);
  Payload stored = in_event(event, ordinal);
  if (const auto output = kept_output(event); transfer->direction == format::kOut && !output.empty())
    stored.pieces = {output.first(std::min<uint64_t>(output.size(), transfer->length))};
  return from->read(*transfer, std::move(stored));
}

const PayloadProvider& trace_payloads() {
  static const PayloadProvider provider;
  return provider;
}

}  // namespace friday
