#include "core/record/sock_peers.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/unix_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/fd.h"

namespace friday {
namespace {

// Sends the request on a netlink socket and gives the first answer's payload; empty if there is none.
template <typename Request>
std::string ask(int socket, const Request& request) {
  struct {
    nlmsghdr header;
    Request body;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.body = request;
  alignas(nlmsghdr) char answer[8192];
  while (recv(socket, answer, sizeof answer, MSG_DONTWAIT) > 0) {}  // the end of the answer before
  if (send(socket, &message, sizeof message, 0) != static_cast<ssize_t>(sizeof message)) return {};
  const ssize_t got = recv(socket, answer, sizeof answer, 0);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return {};
  nlmsghdr header;
  memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_len > static_cast<size_t>(got)) return {};
  return {answer + NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN};
}

// The socket of a protocol that has these places. Of UDP the kernel looks for the one that gets what is sent from the
// first place to the second (udp_dump_one in net/ipv4/udp_diag.c).
std::optional<inet_diag_msg> inet_socket(int socket, uint8_t protocol, const SocketPlace& first,
                                         const SocketPlace& second) {
  inet_diag_req_v2 request{};
  request.sdiag_family = static_cast<uint8_t>(first.family);
  request.sdiag_protocol = protocol;
  request.idiag_states = ~0u;
  request.id.idiag_sport = first.port;
  request.id.idiag_dport = second.port;
  memcpy(request.id.idiag_src, first.words, sizeof first.words);
  memcpy(request.id.idiag_dst, second.words, sizeof second.words);
  request.id.idiag_cookie[0] = request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const std::string answer = ask(socket, request);
  inet_diag_msg found{};
  if (answer.size() < sizeof found) return std::nullopt;
  memcpy(&found, answer.data(), sizeof found);
  return found;
}

// The socket with these addresses that a program has accepted or made.
std::optional<inet_diag_msg> tcp_socket(int socket, const SocketPlace& local, const SocketPlace& remote) {
  const auto found = inet_socket(socket, IPPROTO_TCP, local, remote);
  // If nobody has accepted it yet, the listening socket is found, or an inode of 0.
  return found && found->id.idiag_dport == remote.port && found->idiag_inode ? found : std::nullopt;
}

// The same, also if nobody has accepted it yet.
std::optional<inet_diag_msg> tcp_end_of(int socket, const SocketPlace& local, const SocketPlace& remote) {
  const auto found = inet_socket(socket, IPPROTO_TCP, local, remote);
  return found && found->id.idiag_sport == local.port &&
                 (found->id.idiag_dport == remote.port || !found->id.idiag_dport)
             ? found
             : std::nullopt;
}

// Whether an address is one of the namespace's own.
bool is_local(int socket, const SocketPlace& place) {
  if (is_loopback(place)) return true;
  if (place.family == AF_INET) {
    constexpr size_t kMostInterfaces = 256;
    ifreq interfaces[kMostInterfaces];
    ifconf list{};
    list.ifc_len = sizeof interfaces;
    list.ifc_req = interfaces;
    if (ioctl(socket, SIOCGIFCONF, &list) != 0) return false;
    return std::ranges::any_of(std::span(interfaces).first(list.ifc_len / sizeof(ifreq)), [&](const ifreq& each) {
      sockaddr_in address;
      memcpy(&address, &each.ifr_addr, sizeof address);
      return address.sin_family == AF_INET && address.sin_addr.s_addr == place.words[0];
    });
  }
  // Of the caller's own namespace; a group's network has no addresses of IPv6.
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* each = all; each && !found; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET6) continue;
    sockaddr_in6 address;
    memcpy(&address, each->ifa_addr, sizeof address);
    found = memcmp(&address.sin6_addr, place.words, sizeof place.words) == 0;
  }
  freeifaddrs(all);
  return found;
}

// An attribute of a Unix socket of which `T` is the type.
template <typename T>
std::optional<T> unix_attribute(int socket, uint64_t inode, uint32_t show, uint16_t type) {
  unix_diag_req request{};
  request.sdiag_family = AF_UNIX;
  request.udiag_states = ~0u;
  request.udiag_ino = static_cast<uint32_t>(inode);
  request.udiag_show = show;
  request.udiag_cookie[0] = request.udiag_cookie[1] = ~0u;
  const std::string answer = ask(socket, request);
  size_t at = NLMSG_ALIGN(sizeof(unix_diag_msg));
  while (at + sizeof(rtattr) <= answer.size()) {
    rtattr attribute;
    memcpy(&attribute, answer.data() + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > answer.size()) break;
    T value{};
    if (attribute.rta_type == type && attribute.rta_len >= RTA_LENGTH(sizeof value)) {
      memcpy(&value, answer.data() + at + RTA_LENGTH(0), sizeof value);
      return value;
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return std::nullopt;
}

std::optional<uint64_t> unix_peer(int socket, uint64_t inode) {
  const auto peer = unix_attribute<uint32_t>(socket, inode, UDIAG_SHOW_PEER, UNIX_DIAG_PEER);
  return peer && *peer ? std::optional<uint64_t>(*peer) : std::nullopt;
}

std::optional<uint64_t> peer_in(int socket, const KnownConnection& connection) {
  if (connection.is_unix) return unix_peer(socket, connection.inode);
  const auto found = tcp_socket(socket, connection.remote, connection.local);
  return found ? std::optional<uint64_t>(found->idiag_inode) : std::nullopt;
}

// Calls f(netlink socket) for the namespaces in which the other end, or with `own` this end, of a connection may be,
// until it gives something.
template <typename F>
auto look_in(std::span<const SocketSpace> spaces, const KnownConnection& connection, bool own, F f) -> decltype(f(0)) {
  if (spaces.empty()) {
    const UniqueFd here(open_socket_space());
    return here ? f(here.get()) : std::nullopt;
  }
  const bool only_own = own || connection.is_unix || is_loopback(connection.remote);
  for (const SocketSpace& space : spaces) {
    if (only_own && space.inode != connection.space) continue;
    if (auto found = f(space.socket)) return found;
  }
  return std::nullopt;
}

}  // namespace

bool is_loopback(const SocketPlace& place) {
  constexpr in6_addr kLoopback = IN6ADDR_LOOPBACK_INIT;
  return place.family == AF_INET ? (ntohl(place.words[0]) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET
                                 : memcmp(place.words, &kLoopback, sizeof kLoopback) == 0;
}

bool is_for_several(const SocketPlace& place) {
  constexpr uint32_t kTopByte = 0xff000000;
  const uint32_t first = ntohl(place.words[0]);
  return place.family == AF_INET ? IN_MULTICAST(first) || first == INADDR_BROADCAST
                                 : (first & kTopByte) == kTopByte;  // ff00::/8
}

SocketPlace place_of(const sockaddr_storage& address) {
  SocketPlace out{address.ss_family, 0, {}};
  if (address.ss_family == AF_INET) {
    const auto& inet = reinterpret_cast<const sockaddr_in&>(address);
    out.port = inet.sin_port;
    memcpy(out.words, &inet.sin_addr, sizeof inet.sin_addr);
  } else if (address.ss_family == AF_INET6) {
    const auto& inet = reinterpret_cast<const sockaddr_in6&>(address);
    out.port = inet.sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&inet.sin6_addr)) {
      out.family = AF_INET;
      memcpy(out.words, &inet.sin6_addr.s6_addr[12], 4);
    } else {
      memcpy(out.words, &inet.sin6_addr, sizeof inet.sin6_addr);
    }
  }
  return out;
}

ino_t space_of(int socket) {
  const UniqueFd space(ioctl(socket, SIOCGSKNS));
  struct stat status;
  return space && fstat(space.get(), &status) == 0 ? status.st_ino : 0;
}

int open_socket_space() { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG); }

std::optional<KnownConnection> connection_of(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return std::nullopt;
  KnownConnection out{status.st_ino, S_ISFIFO(status.st_mode), false, {}, {}, 0};
  if (out.is_pipe) return out;
  out.space = space_of(fd);
  sockaddr_storage local{}, remote{};
  socklen_t size = sizeof local;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) return std::nullopt;
  out.is_unix = local.ss_family == AF_UNIX;
  if (out.is_unix) return out;
  size = sizeof remote;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &size) != 0) return std::nullopt;
  out.local = place_of(local);
  out.remote = place_of(remote);
  if (out.local.family == AF_UNSPEC || out.local.family != out.remote.family) return std::nullopt;
  return out;
}

std::optional<DatagramReceiver> datagram_receiver(const SocketPlace& from, const SocketPlace& to, ino_t space,
                                                  std::span<const SocketSpace> spaces) {
  KnownConnection way{.local = from, .remote = to, .space = space};
  constexpr uint32_t kNowhere[4]{};
  const bool is_bound = memcmp(from.words, kNowhere, sizeof kNowhere) != 0;
  // A socket that is bound to no address of its own sends from one of the interface that leads there; one of IPv6 also
  // by IPv4.
  if (!is_bound) way.local.family = to.family;
  if (!is_bound && is_loopback(to)) memcpy(way.local.words, to.words, sizeof to.words);
  if (way.local.family != to.family || to.family == AF_UNSPEC || is_for_several(to)) return std::nullopt;
  // A socket that is bound to no address gets what is sent to any, for all the kernel's table says.
  const auto found = look_in(spaces, way, false, [&](int socket) {
    return is_local(socket, to) ? inet_socket(socket, IPPROTO_UDP, way.local, way.remote) : std::nullopt;
  });
  if (!found || !found->idiag_inode) return std::nullopt;
  return DatagramReceiver{found->idiag_inode, found->idiag_rqueue};
}

std::optional<uint64_t> peer_inode(const KnownConnection& connection, std::span<const SocketSpace> spaces) {
  if (connection.is_pipe) return connection.inode;
  return look_in(spaces, connection, false, [&](int socket) { return peer_in(socket, connection); });
}

std::optional<TcpEnd> tcp_end(const SocketPlace& local, const SocketPlace& remote,
                              std::span<const SocketSpace> spaces) {
  // Of the namespaces that a group has, which one a loopback address means cannot be told.
  if (is_loopback(local) && !spaces.empty()) return std::nullopt;
  const KnownConnection from_there{.local = remote, .remote = local};
  const auto found = look_in(spaces, from_there, false, [&](int socket) { return tcp_end_of(socket, local, remote); });
  if (!found) return std::nullopt;
  const bool is_accepted = found->id.idiag_dport == remote.port;  // else it is the listening socket
  return TcpEnd{is_accepted ? found->idiag_inode : 0, found->idiag_rqueue, found->idiag_wqueue};
}

std::optional<uint64_t> unread_bytes(const KnownConnection& connection, std::span<const SocketSpace> spaces) {
  if (connection.is_pipe) return std::nullopt;
  if (connection.is_unix)
    return look_in(spaces, connection, true, [&](int socket) -> std::optional<uint64_t> {
      const auto peer = unix_peer(socket, connection.inode);
      const auto queues =
          peer ? unix_attribute<unix_diag_rqlen>(socket, *peer, UDIAG_SHOW_RQLEN, UNIX_DIAG_RQLEN) : std::nullopt;
      return queues ? std::optional<uint64_t>(queues->udiag_rqueue) : std::nullopt;
    });
  const auto own = look_in(spaces, connection, true,
                           [&](int socket) { return tcp_socket(socket, connection.local, connection.remote); });
  const auto peer = look_in(spaces, connection, false,
                            [&](int socket) { return tcp_socket(socket, connection.remote, connection.local); });
  return own && peer && own->idiag_wqueue == 0 ? std::optional<uint64_t>(peer->idiag_rqueue) : std::nullopt;
}

}  // namespace friday
