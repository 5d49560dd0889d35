// A conversation with one gdb (`gdb -nx --interpreter=mi3`), and the interface Pump through which callers wait for
// answers.
//
// Friday has one thread and one reactor. While gdb executes a command, it sends remote serial protocol packets to a
// socket that the same thread serves, so a session must never block. The reactor polls fd() and calls on_readable().
// Commands are sent with send(); their answers are fetched by token or passed to a callback. Only the functions that
// take a Pump wait, and they do so by running the reactor. Waits may nest (a callback or an endpoint may query the same
// gdb again), because answers are matched by token.
//
// A session is started and used on the reactor's thread only, and gdb ends with that thread. Guarantees: every token
// gets exactly one answer (a result record, component_died with gdb's last words, or none after abandon());
// asynchronous records are kept in order until they are fetched, even if "*stopped" arrives before the answer of the
// command that caused it; the destructor leaves no process behind.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/refusals.h"
#include "core/mi/parser.h"
#include "core/mi/process.h"

namespace friday {

// One iteration of the program's reactor: waits at most `timeout_ms` for any descriptor and serves those that are
// ready, including sessions. An error (such as interrupted, for Ctrl-C) ends the caller's wait.
class Pump {
 public:
  virtual ~Pump() = default;
  virtual Result<void> pump_once(int timeout_ms) = 0;
};

using MiToken = uint64_t;

struct MiReply {
  ResultRecord record;
  // Console and target output of gdb while it executed the command, in order.
  std::string text;
  std::string log;  // the log stream: warnings, and error messages again
};

struct MiSessionOptions {
  std::string gdb = "gdb";                     // a path, or a name to look up in PATH
  std::vector<std::string> arguments{};        // appended to the fixed arguments, for example the program
  std::string sysroot = "/";                   // where gdb looks for the files of the program and its libraries
  bool load_helper = true;                     // whether to load core/mi/gdb_*.py
  bool confined = false;                       // run gdb in the sandbox of GdbConfinement, as for nodes
  std::string scratch{};                       // the only directory where a confined gdb may write; empty: nowhere
  int channel = -1;                            // a descriptor to pass to gdb as descriptor 3; -1: none
  std::chrono::milliseconds deadline{60'000};  // default time limit of a command
};

class MiSession {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using Callback = std::function<void(Result<MiReply>)>;

  // Starts gdb and sends the start-up commands without waiting for them. The caller may send commands at once, since
  // gdb executes them in order. wait_ready() or startup() reports whether the start succeeded.
  static Result<std::unique_ptr<MiSession>> start(MiSessionOptions options = {});
  // Uses a running gdb in which everything but the sysroot is set up.
  static Result<std::unique_ptr<MiSession>> adopt(MiSessionOptions options, GdbProcess process);
  MiSession(const MiSession&) = delete;
  MiSession& operator=(const MiSession&) = delete;

  // --- for the reactor ---
  // Readable whenever on_readable() has something to do: output of gdb, space for input, or gdb's end. (An epoll
  // descriptor.)
  int fd() const { return epoll_.get(); }
  // Never blocks. Runs callbacks, which may use the session.
  void on_readable();

  // --- state ---
  bool is_alive() const { return !death_; }
  int pid() const { return process_.pid(); }
  // Empty while gdb is still starting.
  std::optional<Result<void>> startup() const;
  // The last lines that gdb wrote to its standard error.
  const std::string& error_tail() const { return error_tail_; }
  size_t pending_commands() const { return pending_.size() + held_.size(); }

  // --- commands, without waiting ---
  // `command` is an MI command on one line, such as "-break-insert main".
  MiToken send(std::string_view command);
  void send(std::string_view command, Callback callback);
  // The answer to a token; empty if it has not arrived. Each answer is returned once.
  std::optional<Result<MiReply>> take_result(MiToken token);
  // Call if the answer is no longer wanted. If gdb is executing the command or has it in its input, gdb is interrupted
  // with SIGINT. The session stays usable; the next command waits until the interruption is over.
  void abandon(MiToken token);

  // --- what gdb says by itself ---
  std::optional<AsyncRecord> take_async();

  // --- commands, waiting by pumping ---
  // Returns the raw answer; an ^error of gdb is a record, not an Error.
  Result<MiReply> request(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline = {});
  // Returns the result record; an ^error of gdb becomes an Error with gdb's message.
  Result<ResultRecord> run(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline = {});
  // Executes a command of gdb's command line and returns its output. The command may contain any bytes, and several
  // lines where gdb accepts them.
  Result<std::string> console(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline = {});
  Result<void> wait_ready(Pump& pump);

  // Wraps a command of gdb's command line as the MI command -friday-console. (With -interpreter-exec, a command that
  // has a body would read it from gdb's standard input, which contains the next MI commands.)
  static std::string console_command(std::string_view command);
  // The output of such a command, or its error.
  static Result<std::string> console_result(MiReply reply);
  Milliseconds deadline() const { return options_.deadline; }
  // The error for a command that was not answered in time.
  static Error deadline_error(std::string_view command, Milliseconds deadline);

 private:
  struct Pending {
    MiToken token;
    std::string command;  // shortened, for messages
    Callback callback;    // empty: the answer is kept for take_result()
    bool abandoned = false;
    bool fence = false;  // sent by the session itself after an interruption; see abandon()
    MiReply reply{};
  };
  struct Held {
    Pending pending;
    std::string line;
  };
  struct Answer {
    Callback callback;
    Result<MiReply> result;
  };

  MiSession(MiSessionOptions options, GdbProcess process, UniqueFd epoll);
  static Result<std::unique_ptr<MiSession>> over(MiSessionOptions options, GdbProcess process);
  void send_startup();
  void send_sysroot();
  // `required`: what to report if gdb does not support the setting; none if that is no error.
  void send_setting(std::string_view command, std::optional<Refusal> required);
  MiToken enqueue(std::string_view command, Callback callback);
  void write_line(Pending pending, std::string line);
  void flush_input();
  void send_fence();
  void handle_quit();
  void handle_fence(bool passed);
  void watch(int fd, uint32_t events);
  void read_output();
  void read_errors();
  void handle(MiRecord record);
  void handle_result(ResultRecord record);
  void handle_stream(const StreamRecord& record);
  void handle_parse_error(const MiParseError& error);
  std::deque<Pending>::iterator find_pending(std::optional<MiToken> token);
  void deliver(Pending pending, Result<MiReply> result);
  void run_callbacks();
  void die();
  Error died(std::string_view command) const;

  MiSessionOptions options_;
  GdbProcess process_;
  UniqueFd epoll_;  // covers gdb's output, error stream and end, and its input while there is something to write
  MiParser parser_;
  MiToken last_token_ = 0;
  std::string unwritten_;
  bool watching_input_ = false;
  std::deque<Pending> pending_;  // in the order sent, in which gdb executes them
  bool fencing_ = false;         // an interruption is in progress; see abandon()
  int fences_passed_ = 0;
  std::deque<Held> held_;  // commands that wait until the interruption is over
  std::unordered_map<MiToken, Result<MiReply>> answers_;
  std::deque<Answer> callbacks_;
  std::deque<AsyncRecord> async_;
  std::string error_tail_;
  std::optional<std::string> death_;  // how gdb ended; empty while it runs
  size_t startup_left_ = 0;
  std::optional<Error> startup_error_;
};

}  // namespace friday
