// A gdb of the user's waits for the group to stop, and the thread that serves it is busy running the group. Meanwhile
// another thread looks at its socket: the byte 3 (Ctrl-C in that gdb) and the end of the connection call `interrupt`,
// which must be safe on any thread. Nothing is taken from the socket.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "core/base/fd.h"

namespace friday {

class ClientWait {
 public:
  ClientWait(int socket, std::function<void()> interrupt);
  ~ClientWait();
  ClientWait(const ClientWait&) = delete;
  ClientWait& operator=(const ClientWait&) = delete;

  // Ends the waiting. Whether `interrupt` was called.
  bool ended_it();

 private:
  void look(int socket);

  std::function<void()> interrupt_;
  UniqueFd done_;  // an eventfd
  std::atomic<bool> called_ = false;
  std::thread thread_;
};

}  // namespace friday
