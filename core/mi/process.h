// One gdb as a child process, started through Boost.Process with three pipes, in its own process group (so that Ctrl-C
// at the console does not reach it), with a clean signal state and without LINES and COLUMNS in its environment. Owned
// by its MiSession; used on the thread that runs the console's reactor. The destructor kills and reaps the process.
//
// A gdb is also killed when its owner dies. For Linux the owner is the thread that started it (PR_SET_PDEATHSIG).
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/mi/confinement.h"

namespace friday {

// Both ends of a gdb's standard streams.
struct GdbPipes {
  struct Pipe {
    UniqueFd read, write;
  };
  Pipe input, output, errors;
  static Result<GdbPipes> make();
};

class GdbProcess {
 public:
  // `program` is a path or a name to look up in PATH. If it does not exist, fails with not_found and names the package
  // to install. `channel`, unless -1, becomes gdb's descriptor 3. Null `confinement` means no sandbox.
  static Result<GdbProcess> start(const std::string& program, const std::vector<std::string>& arguments,
                                  int channel = -1, const GdbConfinement* confinement = nullptr);
  // Takes ownership of a running child that uses these pipes.
  static Result<GdbProcess> adopt(int pid, GdbPipes pipes);

  GdbProcess(GdbProcess&& other) noexcept;
  GdbProcess& operator=(GdbProcess&&) = delete;
  ~GdbProcess();

  int pid() const { return pid_; }
  // Our non-blocking ends of gdb's standard streams. The input is a socket: send with MSG_NOSIGNAL.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  // A pidfd: becomes readable when the process has ended, even if others keep the pipes open.
  int death() const { return pidfd_.get(); }

  // Sends SIGINT to gdb only, which then aborts the command that it is executing.
  void interrupt() const;
  // If the process has ended, reaps it and returns true. Then `exit_text` tells how it ended ("exit code 1", "signal
  // 9").
  bool reap();
  const std::string& exit_text() const { return exit_text_; }

 private:
  GdbProcess() = default;

  int pid_ = -1;
  bool reaped_ = false;
  UniqueFd input_, output_, errors_, pidfd_;
  std::string exit_text_;
};

}  // namespace friday
