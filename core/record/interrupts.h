// Notices SIGINT, SIGTERM and SIGHUP between and beside the runs of a group, while no Group takes them itself. While an
// object of this class exists, these signals do not end the process; a SIGHUP that was ignored (nohup) stays ignored.
// At most one object at a time, on the main thread.
#pragma once

#include <csignal>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

class Interrupts {
 public:
  static Result<Interrupts> watch();
  Interrupts(Interrupts&& other) noexcept;
  ~Interrupts();

  bool came() const { return count() > 0; }
  unsigned count() const;
  // Readable from the first signal on.
  int fd() const { return event_.get(); }

 private:
  Interrupts() = default;
  UniqueFd event_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace friday
