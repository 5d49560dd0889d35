// The other end of a connection within this network namespace, as the kernel knows it (sock_diag(7)).
#pragma once

#include <cstdint>
#include <optional>

namespace friday {

// A socket's address as inet_diag(7) wants it. An IPv4 address in IPv6's form stands as IPv4, as the kernel keeps it.
struct SocketPlace {
  int family = 0;
  uint16_t port = 0;  // in network order
  uint32_t words[4]{};
};

// What names a connection after its descriptor is closed.
struct KnownConnection {
  uint64_t inode = 0;
  bool is_pipe = false, is_unix = false;
  SocketPlace local, remote;
};

// None if the descriptor is no stream socket that is connected, and no pipe.
std::optional<KnownConnection> connection_of(int fd);

// The inode of the socket at the other end; for a pipe the pipe's own. None if there is no such end here, or if nobody
// has accepted the connection yet.
std::optional<uint64_t> peer_inode(const KnownConnection& connection);

}  // namespace friday
