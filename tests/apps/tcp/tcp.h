// TCP for the applications of this folder: blocking sockets that are closed with their owner, on the loopback device
// unless told otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace apps {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close();

  // false at the end of the stream, at an error and after the timeout
  bool send(const void* data, size_t size) const;
  bool receive(void* data, size_t size) const;
  template <class Message>
  bool send(const Message& message) const {
    return send(&message, sizeof message);
  }
  template <class Message>
  bool receive(Message& message) const {
    return receive(&message, sizeof message);
  }

 private:
  int fd_ = -1;
};

// The port of "PORT" or "ADDRESS:PORT", at which the functions below find it. No two addresses have the same port.
int port_of(const std::string& where);
Socket listen_on(int port);  // exits with 2 if the port is in use
Socket accept_from(const Socket& listener);
Socket connect_to(
    int port,
    int timeout_ms);  // a closed one if nobody listens there; it and its replies are awaited for timeout_ms

int64_t now_ms();
void pause_ms(int64_t ms);

}  // namespace apps
