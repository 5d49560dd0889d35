// One conversation with one gdb (`gdb -nx --interpreter=mi3`), and the Pump through which others wait for it.
//
// Friday runs on one thread around one reactor: while a gdb executes a command it sends remote-serial-protocol packets
// to a socket that the same thread serves. So a session never blocks by itself. The reactor polls fd() for input and
// calls on_readable(); commands go out with send() and their answers are taken by token or delivered to a callback.
// Only the helpers that take a Pump wait, and they wait by letting the reactor turn. Nested waits (a callback or an
// endpoint that asks the same gdb again) are fine: answers are matched by token.
//
// A session is started and used from the reactor's thread only, and gdb ends with that thread. It promises: every token
// gets exactly one answer (a result record, or component_died with gdb's last words, or nothing once abandoned);
// asynchronous records are kept in order until taken, also when "*stopped" arrives before the answer of the command
// that caused it; destruction leaves no process behind.
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

// One turn of whatever serves all descriptors of the program: waits at most `timeout_ms` for one of them, then serves
// those that are ready, sessions included. An error (Ctrl-C: interrupted) ends the wait of the caller.
class Pump {
 public:
  virtual ~Pump() = default;
  virtual Result<void> pump_once(int timeout_ms) = 0;
};

using MiToken = uint64_t;

struct MiReply {
  ResultRecord record;
  std::string
      text;         // what gdb printed for the user while it executed the command: console and target streams, in order
  std::string log;  // its log stream: warnings, and the words of errors again
};

struct MiSessionOptions {
  std::string gdb = "gdb";                     // path, or name looked up on PATH
  std::vector<std::string> arguments{};        // after the fixed ones, e.g. the program
  std::string sysroot = "/";                   // where gdb finds the program's and the libraries' files
  bool load_helper = true;                     // core/mi/gdb_*.py
  bool confined = false;                       // by GdbConfinement, as the gdbs of nodes are
  std::string scratch{};                       // the one directory where a confined gdb may write; empty: nowhere
  int channel = -1;                            // a descriptor that gdb gets as its number 3
  std::chrono::milliseconds deadline{60'000};  // of a command, unless the call gives another
};

class MiSession {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using Callback = std::function<void(Result<MiReply>)>;

  // Starts gdb and sends the start-up commands without waiting for them; commands may be sent at once, gdb takes them
  // in order. wait_ready or startup tells how the start went.
  static Result<std::unique_ptr<MiSession>> start(MiSessionOptions options = {});
  // A gdb that runs already and is set up but for its sysroot.
  static Result<std::unique_ptr<MiSession>> adopt(MiSessionOptions options, GdbProcess process);
  MiSession(const MiSession&) = delete;
  MiSession& operator=(const MiSession&) = delete;

  // --- for the reactor ---
  // Readable whenever on_readable has something to do (input, output room, gdb's end). One descriptor for all streams.
  int fd() const { return epoll_.get(); }
  // Never blocks. Runs callbacks, which may use the session again.
  void on_readable();

  // --- state ---
  bool is_alive() const { return !death_; }
  int pid() const { return process_.pid(); }
  // Empty while gdb still starts.
  std::optional<Result<void>> startup() const;
  // Last lines that gdb wrote to its standard error.
  const std::string& error_tail() const { return error_tail_; }
  size_t pending_commands() const { return pending_.size() + held_.size(); }

  // --- commands, without waiting ---
  // `command` is an MI command ("-break-insert main") on one line.
  MiToken send(std::string_view command);
  void send(std::string_view command, Callback callback);
  // The answer to a token, once; empty while there is none.
  std::optional<Result<MiReply>> take_result(MiToken token);
  // The answer is no longer wanted. When gdb still executes or holds the command it is interrupted (SIGINT), and the
  // session is good for the next command, which waits until gdb has got over the interruption.
  void abandon(MiToken token);

  // --- what gdb says by itself ---
  std::optional<AsyncRecord> take_async();
  // Stream text that belongs to no command (bounded; the oldest is dropped).
  std::string take_unsolicited();
  // Lines of gdb that did not parse (the last few).
  std::vector<MiParseError> take_parse_errors();

  // --- commands, waiting by pumping ---
  // The raw answer; gdb's ^error is a record, not an Error.
  Result<MiReply> request(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline = {});
  // The result record; gdb's ^error is an Error with gdb's words.
  Result<ResultRecord> run(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline = {});
  // A command of gdb's command line, any bytes, several lines allowed where gdb allows them: the text it printed.
  Result<std::string> console(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline = {});
  Result<void> wait_ready(Pump& pump);

  // The MI form of commands of gdb's command line: the helper's -friday-console. Through -interpreter-exec, one that
  // has a body would read it from gdb's standard input, where the next MI commands are.
  static std::string console_command(std::string_view command);
  // What such a command printed, or its error.
  static Result<std::string> console_result(MiReply reply);
  Milliseconds deadline() const { return options_.deadline; }
  // The error of a command that was not answered in time.
  static Error deadline_error(std::string_view command, Milliseconds deadline);

 private:
  struct Pending {
    MiToken token;
    std::string command;  // shortened, for messages
    Callback callback;    // empty: the answer is kept for take_result
    bool abandoned = false;
    bool fence = false;  // sent by the session itself, after an interruption
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
  void send_setting(std::string_view command, std::optional<Refusal> required);  // what it means that gdb has it not
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
  void handle_stream(StreamRecord record);
  void handle_parse_error(MiParseError error);
  std::deque<Pending>::iterator find_pending(std::optional<MiToken> token);
  void deliver(Pending pending, Result<MiReply> result);
  void run_callbacks();
  void die();
  Error died(std::string_view command) const;

  MiSessionOptions options_;
  GdbProcess process_;
  UniqueFd epoll_;  // over gdb's output, errors, end, and its input while something waits to be written
  MiParser parser_;
  MiToken last_token_ = 0;
  std::string unwritten_;
  bool watching_input_ = false;
  std::deque<Pending> pending_;  // in the order sent, which is the order gdb executes them in
  bool fencing_ = false;         // an interruption is under way: see abandon
  int fences_passed_ = 0;
  std::deque<Held> held_;  // commands that wait for its end
  std::unordered_map<MiToken, Result<MiReply>> answers_;
  std::deque<Answer> callbacks_;
  std::deque<AsyncRecord> async_;
  std::string unsolicited_;
  std::deque<MiParseError> parse_errors_;
  std::string error_tail_;
  std::optional<std::string> death_;  // how gdb ended
  size_t startup_left_ = 0;
  std::optional<Error> startup_error_;
};

// The pump of sessions that stand alone, without a reactor: polls them and nothing else.
class PollPump : public Pump {
 public:
  explicit PollPump(std::vector<MiSession*> sessions) : sessions_(std::move(sessions)) {}
  Result<void> pump_once(int timeout_ms) override;

 private:
  std::vector<MiSession*> sessions_;
};

}  // namespace friday
