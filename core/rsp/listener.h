// The two places where a client can knock: a Unix-domain socket in a directory of the owner's alone, and, on request, a
// TCP port of the loopback interface. Whoever may talk to an endpoint can run code as the node's owner, so both turn
// away every other user of the machine.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/fd.h"

namespace friday {

class Listener {
 public:
  // Creates the directory (mode 0700) when it is missing; refuses one that others can enter. A stale socket of that
  // name is replaced. The socket is removed with the Listener.
  static Result<Listener> unix_socket(const std::string& path);
  // Port 0 takes any free one.
  static Result<Listener> loopback(uint16_t port);

  Listener() = default;
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  // A new client's socket, non-blocking. Empty when there is none, or it was another user's.
  UniqueFd accept();

  int fd() const { return socket_.get(); }
  uint16_t port() const { return port_; }
  const std::string& path() const { return path_; }

 private:
  void remove_socket();

  UniqueFd socket_;
  std::string path_;
  uint16_t port_ = 0;
};

}  // namespace friday
