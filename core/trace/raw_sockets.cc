#include "core/trace/raw_sockets.h"

#include <vector>

namespace friday {

void leave_out_header(const PayloadProvider& payloads, EventView event, Transfer& transfer) {
  const PayloadAnswer got = payloads.read(event, transfer.part);
  if (!got || got->size() == 0 || got->size() < transfer.length) return;
  const std::vector<std::byte> packet = got->joined();
  const size_t header = (std::to_integer<unsigned>(packet[0]) & 15) * 4;
  if (header > transfer.length) return;
  transfer.length -= static_cast<uint32_t>(header);
  transfer.hash = run_hash(std::span(packet).subspan(header, transfer.length), 0);
}

format::SocketAddress with_protocol(format::SocketAddress peer, uint16_t protocol) {
  peer.bytes[2] = static_cast<uint8_t>(protocol >> 8);
  peer.bytes[3] = static_cast<uint8_t>(protocol);
  return peer;
}

}  // namespace friday
