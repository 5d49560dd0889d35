// Watches the socket of a gdb of the user while that gdb waits for the group to stop, because the thread that normally
// serves it is busy running the group. A thread of this class calls `interrupt` when the byte 3 arrives (Ctrl-C in gdb)
// or the connection ends. It reads nothing from the socket. `interrupt` must be safe on any thread; it is called
// repeatedly until ended_it().
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

  // Stops watching, and returns whether `interrupt` was called.
  bool ended_it();

 private:
  void look(int socket);

  std::function<void()> interrupt_;
  UniqueFd done_;  // an eventfd
  std::atomic<bool> called_ = false;
  std::thread thread_;
};

}  // namespace friday
