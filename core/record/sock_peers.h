// The other end of a connection, as the kernel knows it (sock_diag(7)): in this network namespace, or in those of a
// group's network (network.h).
#pragma once

#include <sys/socket.h>
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
// The inode of the network namespace that a socket is in; 0: not known.
ino_t space_of(int socket);

// None if the descriptor is no stream socket that is connected, and no pipe.
std::optional<KnownConnection> connection_of(int fd);

// The inode of the socket at the other end; for a pipe the pipe's own. None if there is no such end, or if nobody has
// accepted the connection yet. `spaces`: the namespaces that are looked in; if there are none, the caller's own. The
// address of a loopback device means the connection's own namespace.
std::optional<uint64_t> peer_inode(const KnownConnection& connection, std::span<const SocketSpace> spaces);

// As inet_diag(7) wants it; of an address of another family the family alone is known.
SocketPlace place_of(const sockaddr_storage& address);
// A multicast address, or that of all.
bool is_for_several(const SocketPlace& place);

struct DatagramReceiver {
  uint64_t inode;
  uint64_t unread;  // bytes, with what the kernel needs beside them
};
// The socket of datagrams that gets what is sent from one place to another by a socket in the namespace `space` (0: not
// known). None: there is none on this machine, or `to` is for several.
std::optional<DatagramReceiver> datagram_receiver(const SocketPlace& from, const SocketPlace& to, ino_t space,
                                                  std::span<const SocketSpace> spaces);

// An end of a TCP connection, as its own kernel knows it.
struct TcpEnd {
  uint64_t inode;           // 0: nobody has accepted it yet
  uint64_t unread;          // bytes that have come, and that its program has not read
  uint64_t unacknowledged;  // bytes that its program has sent, and that the other end's kernel may not have yet
};
// The end with these addresses; the connection may lead to another machine. An address of a loopback
// device is looked for in the caller's own namespace alone.
std::optional<TcpEnd> tcp_end(const SocketPlace& local, const SocketPlace& remote, std::span<const SocketSpace> spaces);
bool is_loopback(const SocketPlace& place);

// How many bytes the socket at the other end has and its program has not read. None if some are on their way, or if
// there is no such socket. Not for pipes.
std::optional<uint64_t> unread_bytes(const KnownConnection& connection, std::span<const SocketSpace> spaces);

}  // namespace friday
