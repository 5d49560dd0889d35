#include "core/rsp/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "core/base/files.h"

namespace friday {
namespace {

Result<void> prepare_directory(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) && errno != EEXIST) return fail_errno(errno, "cannot create " + directory);
  struct stat info;
  if (lstat(directory.c_str(), &info)) return fail_errno(errno, "cannot use " + directory);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077))
    return fail(ErrorCode::bad_input,
                "{} is not a directory that only its owner can enter; a debugger's socket gives control over the node. "
                "Choose another, or set its mode to 0700.",
                directory);
  return {};
}

// The user who owns the other end of a loopback connection. In /proc/net/tcp that end has our peer's address as its
// local address.
std::optional<uid_t> tcp_peer_owner(int socket) {
  sockaddr_in peer{}, local{};
  socklen_t size = sizeof peer;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size)) return {};
  size = sizeof local;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size)) return {};
  auto table = read_file("/proc/net/tcp");
  if (!table) return {};
  for (size_t at = 0, end; (end = table->find('\n', at)) != std::string::npos; at = end + 1) {
    unsigned from, from_port, to, to_port, uid;
    std::string line = table->substr(at, end - at);
    if (sscanf(line.c_str(), " %*u: %x:%x %x:%x %*x %*x:%*x %*x:%*x %*x %u", &from, &from_port, &to, &to_port, &uid) ==
            5 &&
        from == peer.sin_addr.s_addr && from_port == ntohs(peer.sin_port) && to == local.sin_addr.s_addr &&
        to_port == ntohs(local.sin_port))
      return uid;
  }
  return {};
}

std::optional<uid_t> unix_peer_owner(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size)) return {};
  return peer.uid;
}

}  // namespace

Result<Listener> Listener::unix_socket(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path)
    return fail(ErrorCode::usage, "the socket path {} is longer than the {} characters that Linux allows", path,
                sizeof address.sun_path - 1);
  path.copy(address.sun_path, path.size());
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return fail(ErrorCode::usage, "the socket path {} has no directory", path);
  FRIDAY_TRY_VOID(prepare_directory(path.substr(0, slash)));
  struct stat info;
  if (!lstat(path.c_str(), &info) && S_ISSOCK(info.st_mode)) unlink(path.c_str());
  Listener listener;
  listener.socket_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address))
    return fail_errno(errno, "cannot listen on " + path);
  listener.path_ = path;
  if (listen(listener.fd(), 8)) return fail_errno(errno, "cannot listen on " + path);
  return listener;
}

Result<Listener> Listener::loopback(uint16_t port) {
  Listener listener;
  listener.socket_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), size) || listen(listener.fd(), 8) ||
      getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size))
    return fail_errno(errno, fmt::format("cannot listen on port {} of 127.0.0.1", port));
  listener.port_ = ntohs(address.sin_port);
  return listener;
}

void Listener::remove_socket() {
  if (socket_ && !path_.empty()) unlink(path_.c_str());
}

Listener& Listener::operator=(Listener&& other) noexcept {
  remove_socket();
  socket_ = std::move(other.socket_);
  path_ = std::move(other.path_);
  port_ = other.port_;
  return *this;
}

Listener::~Listener() { remove_socket(); }

UniqueFd Listener::accept() {
  UniqueFd client(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) return {};
  auto owner = path_.empty() ? tcp_peer_owner(client.get()) : unix_peer_owner(client.get());
  if (!owner || (*owner != geteuid() && *owner != 0)) return {};
  if (path_.empty()) {  // each packet is a round trip, so do not wait to fill a segment
    int on = 1;
    setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return client;
}

}  // namespace friday
