#include "core/base/poll_set.h"

#include <cerrno>
#include <utility>

namespace friday {

size_t PollSet::add(int fd, Action when_ready, short events) {
  polled_.push_back({.fd = fd, .events = events, .revents = 0});
  actions_.push_back(std::move(when_ready));
  return polled_.size() - 1;
}

Result<void> PollSet::wait(int timeout_ms) {
  if (poll(polled_.data(), polled_.size(), timeout_ms) >= 0) return {};
  // poll(2) promises nothing about the results when it fails; those of the wait before must not count again.
  for (pollfd& each : polled_) each.revents = 0;
  if (errno == EINTR) return {};
  return fail_errno(errno, fmt::format("cannot wait for {} descriptors", polled_.size()));
}

void PollSet::act() const {
  for (size_t place = 0; place < polled_.size(); place++)
    if (is_ready(place) && actions_[place]) actions_[place]();
}

}  // namespace friday
