// The loop of `friday replay`: lines from a terminal (GNU readline: editing, history, completion) or from a pipe go to
// the Python object that carries them out (pyext/friday/console.py: feed, prompt, complete, fds, pump). While it waits
// for a line, the gdbs of the nodes are served, so that they connect in the background.
//
// Main thread only, which holds the interpreter's lock. While a line is awaited Ctrl-C takes back what was typed; while
// a command runs it is Python's or, inside the core, the session's.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

namespace friday {

class Repl {
 public:
  // terminal: prompts, editing and history.
  Repl(pybind11::object console, bool terminal);
  ~Repl();
  Repl(const Repl&) = delete;

  // Until the end of the input, or until the console says that it is done.
  void run();

 private:
  enum class Event { line, end, interrupted };

  bool turn();
  Event await_line(std::string& line);
  void leave_line();
  Event await_typed(std::string& line);
  Event await_piped(std::string& line);
  bool wait_for_input();
  void feed(const std::string& text);
  void feed_line(const std::string& line, bool pasted);
  void remember(const std::string& line);
  static void on_line(char* text);
  static char** on_complete(const char* word, int start, int end);

  pybind11::object console_;
  bool terminal_;
  bool pumping_ = true;  // off once a pump has failed, until the next line
  std::string history_;  // path, empty: none
  std::string buffer_;   // piped input not yet cut into lines
  bool input_ended_ = false;
  std::optional<std::string> typed_;
  bool typed_end_ = false;
  int wake_[2] = {-1, -1};  // signals while a line is awaited: one byte each
};

}  // namespace friday
