#include "console/repl.h"

#include <fcntl.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <readline/history.h>
#include <readline/readline.h>

#include "core/base/check.h"
#include "core/base/poll_set.h"

namespace friday {

namespace py = pybind11;

namespace {

constexpr int kHistoryLines = 10000;

Repl* the_repl = nullptr;  // readline's callbacks have no user argument
int wake_fd = -1;

void on_signal(int number) {
  const int saved = errno;
  const char byte = number == SIGINT ? 'i' : 'c';
  (void)!write(wake_fd, &byte, 1);
  errno = saved;
}

// While the loop waits for a line, SIGINT and SIGCONT wake it; the destructor restores Python's handlers.
class SignalsToLoop {
 public:
  SignalsToLoop() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGCONT, &action, &continue_);
  }
  ~SignalsToLoop() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGCONT, &continue_, nullptr);
  }

 private:
  struct sigaction interrupt_ {
  }, continue_{};
};

// $XDG_STATE_HOME/friday/history, readable by the user only, since typed lines may contain data of the programs.
std::string history_path() {
  std::filesystem::path state;
  if (const char* set = std::getenv("XDG_STATE_HOME"); set && *set == '/') state = set;
  else if (const char* home = std::getenv("HOME"); home && *home) state = std::filesystem::path(home) / ".local/state";
  else return "";
  std::error_code error;
  std::filesystem::create_directories(state / "friday", error);
  std::string path = (state / "friday" / "history").string();
  const int fd = error ? -1 : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return "";
  close(fd);
  return path;
}

}  // namespace

Repl::Repl(py::object console, bool terminal) : console_(std::move(console)), terminal_(terminal) {
  FRIDAY_CHECK(!the_repl) << "one console a process";
  FRIDAY_CHECK(pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0) << strerror(errno);
  the_repl = this;
  wake_fd = wake_[1];
  if (!terminal_) return;
  rl_readline_name = "friday";
  rl_catch_signals = 0;
  rl_attempted_completion_function = on_complete;
  rl_completer_word_break_characters = " \t\n";
  using_history();
  history_ = history_path();
  if (!history_.empty()) read_history(history_.c_str());
}

Repl::~Repl() {
  if (terminal_ && !history_.empty()) history_truncate_file(history_.c_str(), kHistoryLines);
  the_repl = nullptr;
  wake_fd = -1;
  close(wake_[0]);
  close(wake_[1]);
}

void Repl::run() {
  bool more = true;
  while (more && !console_.attr("done").cast<bool>()) {
    try {
      more = feed_next_line();
    } catch (py::error_already_set& error) {
      // Python received a Ctrl-C just before or after the command itself.
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      if (terminal_) leave_line();
      console_.attr("cancel")();
    }
  }
}

// Processes one line. Returns false at the end of the input.
bool Repl::feed_next_line() {
  std::string line;
  switch (await_line(line)) {
    case Event::line: feed(line); return true;
    case Event::interrupted:
      console_.attr("cancel")();
      if (terminal_) return true;
      [[fallthrough]];
    case Event::end: console_.attr("end")(); return false;
  }
  return false;
}

// Pasted text arrives as one line that contains newlines.
void Repl::feed(const std::string& text) {
  size_t from = 0;
  for (size_t to; (to = text.find('\n', from)) != std::string::npos; from = to + 1)
    feed_line(text.substr(from, to - from), true);
  feed_line(text.substr(from), false);
}

void Repl::feed_line(const std::string& line, bool pasted) {
  if (console_.attr("done").cast<bool>()) return;
  console_.attr("feed")(py::bytes(line).attr("decode")("utf-8", "replace"), pasted);
}

Repl::Event Repl::await_line(std::string& line) {
  pumping_ = true;
  Event event;
  {
    SignalsToLoop signals;
    event = terminal_ ? await_typed(line) : await_piped(line);
  }
  // A Ctrl-C that came immediately after the line cancels it.
  char signals[16];
  const ssize_t count = read(wake_[0], signals, sizeof signals);
  if (event != Event::line || count <= 0 || !std::memchr(signals, 'i', static_cast<size_t>(count))) return event;
  if (terminal_) std::fputs("\n", rl_outstream);
  return Event::interrupted;
}

// Discards the typed text and restores the terminal's settings.
void Repl::leave_line() {
  typed_ahead_.clear();
  rl_callback_sigcleanup();
  rl_free_line_state();
  rl_callback_handler_remove();
}

// Waits for input or a signal and serves the gdbs meanwhile. Returns false if a signal interrupted it.
bool Repl::wait_for_input() {
  for (;;) {
    PollSet set;
    const size_t input = set.add(STDIN_FILENO), signal = set.add(wake_[0]);
    bool served = false;
    if (pumping_)
      for (int fd : console_.attr("fds")().cast<std::vector<int>>()) set.add(fd, [&served] { served = true; });
    {
      py::gil_scoped_release release;
      if (!set.wait(-1)) return true;  // the following read reports the error
    }
    set.act();
    char signals[16];
    const ssize_t count = set.is_ready(signal) ? read(wake_[0], signals, sizeof signals) : 0;
    for (ssize_t i = 0; i < count; i++) {
      if (signals[i] == 'i') return false;
      if (terminal_) {
        rl_prep_terminal(1);
        rl_forced_update_display();
      }
    }
    if (served) try {
        console_.attr("pump")();
        if (terminal_) follow();
      } catch (const py::error_already_set&) {
        pumping_ = false;  // the next command that needs the failed gdb reports the error
      }
    if (set.is_ready(input)) return true;
  }
}

// Shows another prompt above which it is said why, if a gdb of the user has moved the group while a line was typed.
void Repl::follow() {
  const std::string now = console_.attr("prompt")().cast<std::string>();
  if (now == prompt_) return;
  prompt_ = now;
  rl_clear_visible_line();
  std::fflush(rl_outstream);
  console_.attr("tell_moved")();
  rl_set_prompt(prompt_.c_str());
  rl_on_new_line();
  rl_redisplay();
}

void Repl::on_line(char* text) {
  rl_callback_handler_remove();
  if (text) the_repl->typed_ = text;
  else the_repl->typed_end_ = true;
  std::free(text);
}

Repl::Event Repl::await_typed(std::string& line) {
  typed_.reset();
  typed_end_ = false;
  prompt_ = console_.attr("prompt")().cast<std::string>();
  rl_callback_handler_install(prompt_.c_str(), on_line);
  typed_ahead_ += console_.attr("take_typed_ahead")().cast<std::string>();
  while (!typed_ && !typed_end_) {
    if (!typed_ahead_.empty()) {
      rl_stuff_char(static_cast<unsigned char>(typed_ahead_.front()));
      typed_ahead_.erase(0, 1);
    } else if (!wait_for_input()) {
      std::fputs("^C\n", rl_outstream);  // before readline moves the cursor to the start of the line
      std::fflush(rl_outstream);
      leave_line();
      return Event::interrupted;
    }
    rl_callback_read_char();
  }
  if (typed_end_) {
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return Event::end;
  }
  line = std::move(*typed_);
  remember(line);
  return Event::line;
}

void Repl::remember(const std::string& line) {
  if (line.find_first_not_of(" \t\n") == std::string::npos) return;
  const HIST_ENTRY* last = history_length > 0 ? history_get(history_base + history_length - 1) : nullptr;
  if (last && line == last->line) return;
  add_history(line.c_str());
  if (!history_.empty()) append_history(1, history_.c_str());
}

Repl::Event Repl::await_piped(std::string& line) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Event::line;
    }
    if (input_ended_) {
      if (buffer_.empty()) return Event::end;
      line = std::exchange(buffer_, "");
      return Event::line;
    }
    if (!wait_for_input()) return Event::interrupted;
    char bytes[65536];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0) buffer_.append(bytes, static_cast<size_t>(count));
    else if (count == 0 || (errno != EINTR && errno != EAGAIN)) input_ended_ = true;
  }
}

// Readline frees the array and its strings. The first string replaces the word at once.
char** Repl::on_complete(const char* word, int start, int end) {
  rl_attempted_completion_over = 1;
  const std::string line(rl_line_buffer, static_cast<size_t>(end));
  if (!py::reinterpret_steal<py::object>(
          PyUnicode_DecodeUTF8(line.data(), static_cast<Py_ssize_t>(line.size()), nullptr))) {
    PyErr_Clear();  // the text ends inside a character, or has another encoding
    return nullptr;
  }
  py::object answer = the_repl->console_.attr("complete")(line, start);
  if (answer.is_none()) {
    rl_attempted_completion_over = 0;  // let readline complete file names
    return nullptr;
  }
  const auto [candidates, space] = answer.cast<std::pair<std::vector<std::string>, bool>>();
  if (candidates.empty()) return nullptr;
  rl_completion_suppress_append = !space;
  size_t common = candidates[0].size();
  for (const std::string& candidate : candidates) {
    size_t same = 0;
    while (same < common && same < candidate.size() && candidate[same] == candidates[0][same]) same++;
    common = same;
  }
  const std::string shared =
      candidates.size() == 1 ? candidates[0] : candidates[0].substr(0, std::max(common, std::strlen(word)));
  auto** list = static_cast<char**>(std::malloc((candidates.size() + 2) * sizeof(char*)));
  size_t n = 0;
  list[n++] = strdup(shared.c_str());
  if (candidates.size() > 1)
    for (const std::string& candidate : candidates) list[n++] = strdup(candidate.c_str());
  list[n] = nullptr;
  return list;
}

}  // namespace friday
