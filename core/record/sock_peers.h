// The other end of a connection, as the kernel knows it (sock_diag(7)): in this network namespace, or in those of a
// group's network (network.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

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
  ino_t space = 0;  // inode of the socket's network namespace; 0: not known
};

// A network namespace whose sockets can be asked for.
struct SocketSpace {
  int socket;   // a netlink socket of that namespace, for sock_diag(7)
  ino_t inode;  // of the namespace
};
// Such a socket of the namespace that the calling thread is in; -1 and errno if there is none.
int open_socket_space();

// None if the descriptor is no stream socket that is connected, and no pipe.
std::optional<KnownConnection> connection_of(int fd);

// The inode of the socket at the other end; for a pipe the pipe's own. None if there is no such end, or if nobody has
// accepted the connection yet. `spaces`: the namespaces that are looked in; if there are none, the caller's own. The
// address of a loopback device means the connection's own namespace.
std::optional<uint64_t> peer_inode(const KnownConnection& connection, std::span<const SocketSpace> spaces);

// How many bytes the socket at the other end has and its program has not read. None if some are on their way, or if
// there is no such socket. Not for pipes.
std::optional<uint64_t> unread_bytes(const KnownConnection& connection, std::span<const SocketSpace> spaces);

}  // namespace friday
