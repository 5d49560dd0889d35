// A gdb that has loaded a program's symbols and is copied for each node that needs a gdb of its own: the copies share
// its memory, and start in milliseconds instead of seconds. Used from the reactor's thread, as sessions are.
#pragma once

#include <memory>
#include <string>

#include "core/base/fd.h"
#include "core/mi/session.h"

namespace friday {

class GdbZygote {
 public:
  // Starts it; it loads the symbols of the file `program` in the background.
  static Result<std::unique_ptr<GdbZygote>> start(MiSessionOptions options, const std::string& program);

  // A gdb of its own, ready for commands. Waits by pumping, at first until the symbols are there.
  Result<std::unique_ptr<MiSession>> copy(const std::string& sysroot, Pump& pump);

  MiSession& session() { return *session_; }

 private:
  GdbZygote(MiSessionOptions options, std::unique_ptr<MiSession> session, UniqueFd channel)
      : options_(std::move(options)), session_(std::move(session)), channel_(std::move(channel)) {}

  MiSessionOptions options_;
  std::unique_ptr<MiSession> session_;
  UniqueFd channel_;  // descriptors of a copy go through it
};

}  // namespace friday
