// What an event told the process about signals and about the ends of other processes: the status returned by wait(2),
// or a siginfo delivered to a handler, returned by sigtimedwait(2) or read from a signalfd.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/record.h"

namespace friday {

struct ToldSignal {
  int signal, code;  // `code` is si_code, for example CLD_KILLED
  uint32_t sender;   // si_pid: the sender, or the child that SIGCHLD reports
  int status;        // si_status: for SIGCHLD, the child's exit code or the signal that ended it

  // The status that wait(2) would return for this signal; empty if it does not report the end of a child.
  std::optional<int> ended_with() const;
};

// All signals that the event reported. A read(2) may be passed only if the descriptor was a signalfd; the caller must
// know that.
std::vector<ToldSignal> signals_told(EventView event);

// The status that a call of the wait(2) family stored; empty if the caller passed no place for it.
std::optional<int> status_told(EventView event);

}  // namespace friday
