#include "core/debug/client_wait.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>

#include "core/base/poll_set.h"

namespace friday {

namespace {
// Milliseconds between repeated interrupts. One that arrives just before the tracer goes to sleep is lost.
constexpr int kAgain = 20;
constexpr int kInterruptByte = 3;  // gdb's remote protocol, "Interrupts"

// Whether the client has sent an interrupt or closed the connection.
bool wants_end(int socket) {
  char bytes[256];
  const ssize_t got = recv(socket, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got > 0 && memchr(bytes, kInterruptByte, static_cast<size_t>(got)));
}
}  // namespace

ClientWait::ClientWait(int socket, std::function<void()> interrupt)
    : interrupt_(std::move(interrupt)), done_(eventfd(0, EFD_CLOEXEC)) {
  // The new thread must not receive signals, which the other threads of this program handle.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, socket] { look(socket); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ClientWait::~ClientWait() { ended_it(); }

bool ClientWait::ended_it() {
  if (thread_.joinable()) {
    eventfd_write(done_.get(), 1);
    thread_.join();
  }
  return called_;
}

void ClientWait::look(int socket) {
  PollSet either, end;
  const size_t done = either.add(done_.get());
  either.add(socket);
  end.add(done_.get());
  for (;;) {
    if (!either.wait(-1)) continue;
    if (either.is_ready(done)) return;
    if (called_ || wants_end(socket)) {
      called_ = true;
      interrupt_();
    }
    // Other input stays in the socket and would end a wait for it at once, so wait on `done_` only.
    if (end.wait(kAgain) && end.is_ready(done)) return;
  }
}

}  // namespace friday
