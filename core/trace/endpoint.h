// Socket addresses as values that compare: IPv4 written as IPv6 is IPv4 again, unused bytes are gone, a Unix name is
// its path. Two sides of one connection then have equal endpoints crosswise, unless an address translator stands
// between.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/shim/trace_format.h"

namespace friday {

struct Address {
  uint16_t family = 0;  // AF_INET, AF_INET6, AF_UNIX, or another; 0: none
  uint16_t port = 0;
  std::string name;  // 4 or 16 address bytes; for Unix sockets the path (abstract: with its NUL), empty if unnamed
  auto operator<=>(const Address&) const = default;

  bool known() const { return family != 0 && (port != 0 || !name.empty()); }
  bool is_inet() const;
  bool is_wildcard() const;  // 0.0.0.0 or ::
  bool is_loopback() const;
  bool is_many() const;  // multicast, or the broadcast 255.255.255.255: no socket's own, and of many
};

Address parse_address(const format::Endpoint& endpoint);

// "10.0.0.1:80", "[::1]:80", "/run/x.sock", "@abstract", "unnamed", "-".
std::string text(const Address& address);

// Whether two views can be of the same endpoint: equal, or one of them leaves the address open.
bool could_equal(const Address& a, const Address& b);

}  // namespace friday
