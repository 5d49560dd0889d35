// Runs a command that judges a recording: bounded in time, in a process group of its own, without input, its output in
// a file. Nothing that it has started in its process group outlives it.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

struct CheckCommand {
  std::vector<std::string> words;  // the program, searched in PATH, and its arguments
  std::string log;                 // output and errors are appended to this file
  double timeout = 60;             // seconds until it is ended
};

struct CheckEnd {
  int status = 0;  // wait status
  bool timed_out = false, interrupted = false;
};

// Waits until the command has ended, its time is over, or `interrupt_fd` (-1: none) is readable. Fails if the command
// cannot be started.
Result<CheckEnd> run_check(const CheckCommand& command, int interrupt_fd);

// The text, or its first `most` bytes and "...".
std::string shorten(const std::string& text, size_t most);

// The last line of the file with something in it, at most `most` bytes of it; empty if there is none.
std::string last_line_of(const std::string& path, size_t most);

}  // namespace friday
