// A reactor for tests of gdb sessions: waits for the sessions that it is given, and serves nothing else.
#pragma once

#include "core/base/poll_set.h"
#include "core/mi/multiplexer.h"
#include "core/mi/session.h"

namespace friday {

class PollPump : public Pump {
 public:
  explicit PollPump(std::vector<MiSession*> sessions) : sessions_(std::move(sessions)) {}
  // All sessions of `gdbs`, as they are at each wait.
  explicit PollPump(MiMultiplexer& gdbs) : gdbs_(&gdbs) {}

  Result<void> pump_once(int timeout_ms) override {
    PollSet set;
    for (MiSession* session : sessions_)
      if (session->is_alive()) set.add(session->fd(), [session] { session->on_readable(); });
    if (gdbs_)
      for (int fd : gdbs_->fds()) set.add(fd, [this, fd] { gdbs_->dispatch(fd); });
    FRIDAY_TRY_VOID(set.wait(timeout_ms));
    set.act();
    return {};
  }

 private:
  std::vector<MiSession*> sessions_;
  MiMultiplexer* gdbs_ = nullptr;
};

}  // namespace friday
