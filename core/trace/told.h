// What an event tells its process of the ends of others: the status that it waited for, and signals, by the siginfo of
// a handler or of sigtimedwait(2) or by what a signalfd gave.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/record.h"

namespace friday {

struct ToldSignal {
  int signal, code;  // si_code, as CLD_KILLED
  uint32_t sender;   // si_pid: who sent it, or the child that it tells of
  int status;        // si_status: of SIGCHLD the exit code of the child, or its signal

  // As wait(2) would have told it; none if this does not tell of the end of a child.
  std::optional<int> ended_with() const;
};

// Of a read(2) only if it gave whole signalfd_siginfo: the caller knows whether the descriptor was a signalfd.
std::vector<ToldSignal> signals_told(EventView event);

// The status that a call of wait(2) or its kin gave; none if the caller gave no place for it.
std::optional<int> status_told(EventView event);

}  // namespace friday
