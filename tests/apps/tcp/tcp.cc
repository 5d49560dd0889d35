#include "tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

namespace apps {

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  fd_ = other.fd_;
  other.fd_ = -1;
  return *this;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Socket::send(const void* data, size_t size) const {
  for (const char* rest = static_cast<const char*>(data); size > 0;) {
    const ssize_t done = ::send(fd_, rest, size, MSG_NOSIGNAL);
    if (done <= 0) return false;
    rest += done, size -= static_cast<size_t>(done);
  }
  return true;
}

bool Socket::receive(void* data, size_t size) const {
  for (char* rest = static_cast<char*>(data); size > 0;) {
    const ssize_t done = ::recv(fd_, rest, size, MSG_WAITALL);
    if (done <= 0) return false;
    rest += done, size -= static_cast<size_t>(done);
  }
  return true;
}

static std::map<int, in_addr_t> hosts;  // of the ports that are not on the loopback device

static sockaddr_in address_of(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const auto host = hosts.find(port);
  address.sin_addr.s_addr = host == hosts.end() ? htonl(INADDR_LOOPBACK) : host->second;
  return address;
}

int port_of(const std::string& where) {
  const size_t colon = where.find(':');
  if (colon == std::string::npos) return atoi(where.c_str());
  const int port = atoi(where.c_str() + colon + 1);
  hosts[port] = inet_addr(where.substr(0, colon).c_str());
  return port;
}

static Socket tcp() {
  Socket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  ::setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return made;
}

Socket listen_on(int port) {
  Socket made = tcp();
  sockaddr_in address = address_of(port);
  if (::bind(made.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(made.fd(), 16) != 0) {
    perror("cannot open the port");
    exit(2);
  }
  return made;
}

Socket accept_from(const Socket& listener) {
  Socket made(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  int on = 1;
  if (made.open()) ::setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

Socket connect_to(int port, int timeout_ms) {
  Socket made = tcp();
  timeval limit{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  for (int which : {SO_RCVTIMEO, SO_SNDTIMEO})  // the second bounds connect()
    ::setsockopt(made.fd(), SOL_SOCKET, which, &limit, sizeof limit);
  sockaddr_in address = address_of(port);
  if (::connect(made.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) made.close();
  return made;
}

int64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pause_ms(int64_t ms) {
  timespec span{ms / 1000, ms % 1000 * 1000000};
  nanosleep(&span, nullptr);
}

}  // namespace apps
