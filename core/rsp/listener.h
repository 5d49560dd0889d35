// The sockets on which an endpoint accepts clients: a Unix-domain socket in a directory that only the owner can enter
// and, on request, a TCP port of the loopback interface. A client can execute code as the owner of the node, so both
// sockets refuse every other user of the machine.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/fd.h"

namespace friday {

class Listener {
 public:
  // Creates the directory (mode 0700) if it is missing, and fails if other users can enter it. Replaces a stale socket
  // of the same name. The Listener's destructor removes the socket.
  static Result<Listener> unix_socket(const std::string& path);
  // Port 0 chooses a free port.
  static Result<Listener> loopback(uint16_t port);

  Listener() = default;
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  // The non-blocking socket of a new client. Empty if no client is waiting, or if it belonged to another user and was
  // refused.
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
