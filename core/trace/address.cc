#include "core/trace/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace friday {

namespace {

uint16_t port_at(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[2] << 8 | bytes[3]); }

}  // namespace

bool Address::is_inet() const { return family == AF_INET || family == AF_INET6; }

bool Address::is_wildcard() const {
  return is_inet() && std::ranges::all_of(name, [](char byte) { return byte == 0; });
}

bool Address::is_loopback() const {
  if (family == AF_INET) return !name.empty() && name[0] == 127;
  return family == AF_INET6 && name == std::string(15, '\0') + '\1';
}

bool Address::is_many() const {
  if (family == AF_INET && name.size() == 4)
    return (static_cast<uint8_t>(name[0]) & 0xf0) == 0xe0 || name == "\xff\xff\xff\xff";
  return family == AF_INET6 && name.size() == 16 && static_cast<uint8_t>(name[0]) == 0xff;
}

Address parse_address(const format::SocketAddress& recorded) {
  Address address;
  const uint8_t* bytes = recorded.bytes;
  uint32_t length = std::min<uint32_t>(recorded.length, format::kSocketAddressBytes);
  if (length < sizeof(sa_family_t)) return address;
  memcpy(&address.family, bytes, sizeof address.family);
  const char* raw = reinterpret_cast<const char*>(bytes);
  if (address.family == AF_INET && length >= 8) {
    address.port = port_at(bytes);
    address.name.assign(raw + offsetof(sockaddr_in, sin_addr), 4);
  } else if (address.family == AF_INET6 && length >= 24) {
    address.port = port_at(bytes);
    address.name.assign(raw + offsetof(sockaddr_in6, sin6_addr), 16);
    if (address.name.starts_with(std::string(10, '\0') + "\xff\xff")) {
      address.family = AF_INET;
      address.name.erase(0, 12);
    }
  } else if (address.family == AF_UNIX && length > offsetof(sockaddr_un, sun_path)) {
    const char* path = raw + offsetof(sockaddr_un, sun_path);
    size_t room = length - offsetof(sockaddr_un, sun_path);
    address.name.assign(path, path[0] ? strnlen(path, room) : room);
  } else if (address.family != AF_UNIX) {
    address.name.assign(raw + sizeof(sa_family_t), length - sizeof(sa_family_t));
  }
  return address;
}

std::string text(const Address& address) {
  char buffer[INET6_ADDRSTRLEN];
  if (address.family == 0) return "-";
  if (address.family == AF_INET && address.name.size() == 4)
    return fmt::format("{}:{}", inet_ntop(AF_INET, address.name.data(), buffer, sizeof buffer), address.port);
  if (address.family == AF_INET6 && address.name.size() == 16)
    return fmt::format("[{}]:{}", inet_ntop(AF_INET6, address.name.data(), buffer, sizeof buffer), address.port);
  if (address.family == AF_UNIX) {
    if (address.name.empty()) return "unnamed";
    return address.name[0] ? address.name : "@" + address.name.substr(1);
  }
  return fmt::format("family {}", address.family);
}

bool could_equal(const Address& a, const Address& b) {
  if (!a.known() || !b.known()) return true;
  if (a.port != b.port) return false;
  if (a.is_inet() && b.is_inet() && (a.is_wildcard() || b.is_wildcard())) return true;
  return a.family == b.family && a.name == b.name;
}

}  // namespace friday
