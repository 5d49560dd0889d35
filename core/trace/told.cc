#include "core/trace/told.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>

namespace friday {

std::optional<int> ToldSignal::ended_with() const {
  if (signal != SIGCHLD) return std::nullopt;
  switch (code) {
    case CLD_EXITED: return W_EXITCODE(status & 0xff, 0);
    case CLD_KILLED: return W_EXITCODE(0, status & 0x7f);
    case CLD_DUMPED: return W_EXITCODE(0, status & 0x7f) | WCOREFLAG;
    default: return std::nullopt;
  }
}

std::vector<ToldSignal> signals_told(EventView event) {
  std::vector<ToldSignal> told;
  const bool by_descriptor = event.has_call() && event->call == SYS_read;
  const uint16_t holder = event.type() == format::kSignal ? format::kSignalInfo : format::kMemory;
  for (PartView part : event.parts()) {
    if (part.kind() != holder) continue;
    const auto bytes = part.bytes();
    if (by_descriptor) {
      signalfd_siginfo info;
      for (size_t at = 0; at + sizeof info <= bytes.size(); at += sizeof info) {
        memcpy(&info, bytes.data() + at, sizeof info);
        told.push_back({static_cast<int>(info.ssi_signo), info.ssi_code, info.ssi_pid, info.ssi_status});
      }
    } else if (bytes.size() >= sizeof(siginfo_t)) {
      siginfo_t info;
      memcpy(&info, bytes.data(), sizeof info);
      told.push_back({info.si_signo, info.si_code, static_cast<uint32_t>(info.si_pid), info.si_status});
    }
  }
  return told;
}

std::optional<int> status_told(EventView event) {
  const std::span<const uint64_t> arguments = event.arguments();
  if (event.has_call() && event->call == SYS_wait4 && arguments.size() > 1 && arguments[1] == 0) return std::nullopt;
  for (PartView part : event.parts())
    if (const auto* wait = part.wait()) return static_cast<int>(wait->status);
  return std::nullopt;
}

}  // namespace friday
