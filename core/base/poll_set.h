// poll(2) over descriptors that are each added with the action to take when it is ready. All waits of Friday outside
// the shim for more than one thing go through it, but that of the relay (core/record/relay.cc). A set is made anew for
// each wait, because what is waited for changes from one wait to the next, and waits nest: whoever waits for gdb's
// answer serves the endpoint that the same gdb talks to. Owns no descriptors. Use on one thread.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "core/base/error.h"

namespace friday {

class PollSet {
 public:
  using Action = std::function<void()>;

  // Returns the descriptor's place in the set, for is_ready().
  size_t add(int fd, Action when_ready = {}, short events = POLLIN);

  // Waits until a descriptor is ready, at most `timeout_ms` (-1: without end). After the time, or when a signal has
  // interrupted the wait, none is ready. Takes no action yet, so that the caller can look at a flag first.
  Result<void> wait(int timeout_ms);

  bool is_ready(size_t place) const { return polled_[place].revents != 0; }

  // Takes the actions of the ready descriptors, in the order in which they were added.
  void act() const;

 private:
  std::vector<pollfd> polled_;
  std::vector<Action> actions_;
};

}  // namespace friday
