// One gdb as a child process: started through Boost.Process with three pipes, in its own process group (Ctrl-C at the
// console does not reach it), with a clean signal state and without LINES and COLUMNS. Owned by its MiSession; used
// from the thread that runs the console's reactor. The destructor kills and reaps the process, so none is left behind.
//
// A gdb ends with its owner, whatever it does at that moment. To Linux the owner is the thread that started it.
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
  // `program` is a path, or a name looked up on PATH. A program that does not exist is not_found, with the package to
  // install. `channel`, if there is one, is gdb's descriptor 3. `confinement`: null for none.
  static Result<GdbProcess> start(const std::string& program, const std::vector<std::string>& arguments,
                                  int channel = -1, const GdbConfinement* confinement = nullptr);
  // A child that runs already, on these pipes.
  static Result<GdbProcess> adopt(int pid, GdbPipes pipes);

  GdbProcess(GdbProcess&& other) noexcept;
  GdbProcess& operator=(GdbProcess&&) = delete;
  ~GdbProcess();

  int pid() const { return pid_; }
  // Non-blocking ends of gdb's standard streams. The input is a socket: send to it with MSG_NOSIGNAL.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  // Readable once the process has ended, whoever still holds the other ends of its pipes.
  int death() const { return pidfd_.get(); }

  // SIGINT to gdb alone: it gives up the command it executes.
  void interrupt() const;
  // True once the process has ended; reaps it. `exit_text` then says how ("exit code 1", "signal 9").
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
