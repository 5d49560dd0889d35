// The input loop of `friday replay`. Lines from a terminal (GNU readline with editing, history and completion) or from
// a pipe go to the Python object that executes them (pyext/friday/console.py: feed, prompt, complete, fds, pump). While
// the loop waits for a line, it serves the gdbs of the nodes, so that they connect in the background.
//
// Runs on the main thread, which holds the interpreter lock. While the loop waits for input, Ctrl-C discards the typed
// line; while a command runs, Ctrl-C is handled by Python or, inside the core, by the session.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

namespace friday {

class Repl {
 public:
  // `terminal` enables prompts, editing and history.
  Repl(pybind11::object console, bool terminal);
  ~Repl();
  Repl(const Repl&) = delete;

  // Runs until the end of the input, or until the console reports that it is done.
  void run();

 private:
  enum class Event { line, end, interrupted };

  bool feed_next_line();
  Event await_line(std::string& line);
  void leave_line();
  Event await_typed(std::string& line);
  Event await_piped(std::string& line);
  bool wait_for_input();
  void follow();
  void feed(const std::string& text);
  void feed_line(const std::string& line, bool pasted);
  void remember(const std::string& line);
  static void on_line(char* text);
  static char** on_complete(const char* word, int start, int end);

  pybind11::object console_;
  bool terminal_;
  bool pumping_ = true;  // false after a pump has failed, until the next line
  std::string history_;  // path of the history file; empty: none
  std::string buffer_;   // input from a pipe that is not yet split into lines
  bool input_ended_ = false;
  std::string prompt_;       // as it is shown
  std::string typed_ahead_;  // what was typed before a pager began; it comes before what the terminal has now
  std::optional<std::string> typed_;
  bool typed_end_ = false;
  int wake_[2] = {-1, -1};  // pipe on which signals wake the loop while it waits for a line: one byte for each
};

}  // namespace friday
