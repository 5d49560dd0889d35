// A gdb that has loaded a program's symbols and is forked for each node that needs a gdb of its own: the copies share
// its memory and start in milliseconds instead of seconds. Use on the reactor's thread, as for sessions.
#pragma once

#include <memory>
#include <string>

#include "core/base/fd.h"
#include "core/mi/session.h"

namespace friday {

class GdbZygote {
 public:
  // Starts the zygote, which loads the symbols of the file `program` in the background.
  static Result<std::unique_ptr<GdbZygote>> start(MiSessionOptions options, const std::string& program);

  // Forks a gdb that is ready for commands. Waits by pumping; the first call waits until the symbols are loaded.
  Result<std::unique_ptr<MiSession>> copy(const std::string& sysroot, Pump& pump);

  MiSession& session() { return *session_; }

 private:
  GdbZygote(MiSessionOptions options, std::unique_ptr<MiSession> session, UniqueFd channel)
      : options_(std::move(options)), session_(std::move(session)), channel_(std::move(channel)) {}

  MiSessionOptions options_;
  std::unique_ptr<MiSession> session_;
  UniqueFd channel_;  // passes the descriptors of each copy to the zygote
};

}  // namespace friday
