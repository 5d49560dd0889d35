// What is different about messages of raw sockets.
#pragma once

#include "core/trace/facts.h"

namespace friday {

// A raw IPv4 socket receives the IP header as well. The sender did not hash it, so it is removed here.
void leave_out_header(const PayloadProvider& payloads, EventView event, Transfer& transfer);
// The peer's address in the form in which a raw socket's channel stores its own: with the protocol number as the port.
format::SocketAddress with_protocol(format::SocketAddress peer, uint16_t protocol);

}  // namespace friday
