#include "core/record/interrupts.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace friday {
namespace {

std::atomic<int> signalled_fd{-1};
std::atomic<unsigned> signals{0};

void on_signal(int) {
  const int saved = errno;
  signals++;
  const uint64_t one = 1;
  (void)!write(signalled_fd.load(), &one, sizeof one);
  errno = saved;
}

}  // namespace

Result<Interrupts> Interrupts::watch() {
  Interrupts interrupts;
  interrupts.event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!interrupts.event_) return fail_errno(errno, "eventfd failed");
  signals = 0;
  signalled_fd = interrupts.event_.get();
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before, action{};
    sigaction(number, nullptr, &before);
    if (number == SIGHUP && before.sa_handler == SIG_IGN) continue;
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
    interrupts.before_.emplace_back(number, before);
  }
  return interrupts;
}

Interrupts::Interrupts(Interrupts&& other) noexcept
    : event_(std::move(other.event_)), before_(std::exchange(other.before_, {})) {}

Interrupts::~Interrupts() {
  for (const auto& [number, action] : before_) sigaction(number, &action, nullptr);
}

unsigned Interrupts::count() const { return signals; }

}  // namespace friday
