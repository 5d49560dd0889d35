// Socket addresses in a normal form that can be compared: an IPv4 address written as IPv6 becomes IPv4, unused bytes
// are dropped, and a Unix socket is named by its path. The local address of one side of a connection then equals the
// remote address of the other side, unless the network translated addresses on the way.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/shim/trace_format.h"

namespace friday {

struct Address {
  uint16_t family = 0;  // AF_INET, AF_INET6, AF_UNIX or another family; 0 if there is no address
  uint16_t port = 0;
  std::string
      name;  // 4 or 16 address bytes; for Unix sockets the path, empty if unnamed (an abstract name begins with NUL)
  auto operator<=>(const Address&) const = default;

  bool known() const { return family != 0 && (port != 0 || !name.empty()); }
  bool is_inet() const;
  bool is_wildcard() const;  // 0.0.0.0 or ::
  bool is_loopback() const;
  bool is_many() const;  // a multicast address, or the broadcast address 255.255.255.255: many sockets may receive
};

Address parse_address(const format::SocketAddress& recorded);

// For example "10.0.0.1:80", "[::1]:80", "/run/x.sock", "@abstract", "unnamed", or "-" if there is no address.
std::string text(const Address& address);

// Whether two addresses can belong to the same socket: they are equal, or one of them leaves the IP address open (a
// wildcard).
bool could_equal(const Address& a, const Address& b);

}  // namespace friday
