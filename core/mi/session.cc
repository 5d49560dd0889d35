#include "core/mi/session.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/log.h"
#include "core/base/refusals.h"
#include "core/mi/helper_script.h"
#include "core/mi/typed.h"
#include "core/mi/value.h"

namespace friday {

namespace {

constexpr size_t error_tail_limit = 4096;

void append_bounded(std::string& tail, std::string_view text, size_t limit) {
  tail += text;
  if (tail.size() > limit) tail.erase(0, tail.size() - limit);
}

std::string shortened(std::string_view command) {
  if (command.size() <= 80) return std::string(command);
  return std::string(command.substr(0, 77)) + "...";
}

// Formats `text` as a Python string literal on one line.
std::string python_literal(std::string_view text) {
  std::string literal = "'";
  for (char c : text) {
    if (c == '\n') literal += "\\n";
    else if (c == '\\' || c == '\'') (literal += '\\') += c;
    else literal += c;
  }
  return literal + "'";
}

}  // namespace

Result<std::unique_ptr<MiSession>> MiSession::start(MiSessionOptions options) {
  // Disable auto-loading: scripts in a program's files must not run.
  std::vector<std::string> arguments{"-nx", "-q", "--interpreter=mi3", "-iex", "set auto-load off"};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::optional<GdbConfinement> confinement;
  if (options.confined) confinement = GdbConfinement::prepare(options.scratch);
  FRIDAY_TRY(process,
             GdbProcess::start(options.gdb, arguments, options.channel, confinement ? &*confinement : nullptr));
  FRIDAY_TRY(session, over(std::move(options), std::move(process)));
  session->send_startup();
  return std::move(session);
}

Result<std::unique_ptr<MiSession>> MiSession::adopt(MiSessionOptions options, GdbProcess process) {
  FRIDAY_TRY(session, over(std::move(options), std::move(process)));
  // the copied gdb still has to answer one command of the session that it was copied from
  session->last_token_ = 1 << 20;
  session->send_sysroot();
  return std::move(session);
}

Result<std::unique_ptr<MiSession>> MiSession::over(MiSessionOptions options, GdbProcess process) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno(errno, "cannot watch the pipes of gdb");
  return std::unique_ptr<MiSession>(new MiSession(std::move(options), std::move(process), std::move(epoll)));
}

MiSession::MiSession(MiSessionOptions options, GdbProcess process, UniqueFd epoll)
    : options_(std::move(options)), process_(std::move(process)), epoll_(std::move(epoll)) {
  watch(process_.output(), EPOLLIN);
  watch(process_.errors(), EPOLLIN);
  watch(process_.death(), EPOLLIN);
}

// The limit of hardware watchpoints is deliberately not set: any value makes gdb refuse wide or numerous watchpoints.
void MiSession::send_startup() {
  send_setting("-gdb-set mi-async on", Refusal::gdb);
  for (const char* setting : {"confirm off", "pagination off", "width 0", "height 0", "host-charset UTF-8",
                              "debuginfod enabled off", "breakpoint pending on"})
    send_setting(fmt::format("-gdb-set {}", setting), std::nullopt);
  send_sysroot();
  if (!options_.load_helper) return;
  std::string script = python_literal(gdb_helper_script());
  std::string load = fmt::format("python exec(compile({}, 'gdb_friday.py', 'exec'))", script);
  send_setting("-interpreter-exec console " + mi_quote(load), Refusal::gdb_python);
}

// gdb takes the rest of the line as the path, without quoting.
void MiSession::send_sysroot() { send_setting("-gdb-set sysroot " + options_.sysroot, std::nullopt); }

void MiSession::send_setting(std::string_view command, std::optional<Refusal> required) {
  ++startup_left_;
  enqueue(command, [this, required](Result<MiReply> reply) {
    --startup_left_;
    if (startup_error_ || (reply && !reply->record.is_error())) return;
    if (!reply) {
      startup_error_ = std::move(reply).error();
    } else if (required) {
      startup_error_ = Error{
          ErrorCode::unsupported,
          describe_refusal(*required, fmt::format("{} answered \"{}\"", options_.gdb, reply->record.error_message()))};
    }
  });
}

std::optional<Result<void>> MiSession::startup() const {
  if (startup_error_) return std::unexpected(*startup_error_);
  if (startup_left_ > 0) return std::nullopt;
  return Result<void>();
}

// --- writing ---

MiToken MiSession::send(std::string_view command) { return enqueue(command, nullptr); }

void MiSession::send(std::string_view command, Callback callback) { enqueue(command, std::move(callback)); }

MiToken MiSession::enqueue(std::string_view command, Callback callback) {
  MiToken token = ++last_token_;
  Pending pending{.token = token, .command = shortened(command), .callback = std::move(callback)};
  std::string line = fmt::format("{}{}\n", token, command);
  if (death_) {
    deliver(std::move(pending), std::unexpected(died(command)));
  } else if (command.find('\n') != std::string_view::npos) {
    deliver(std::move(pending),
            fail(ErrorCode::usage, "a GDB/MI command is one line, this one has several: {}", shortened(command)));
  } else if (fencing_) {
    held_.push_back({std::move(pending), std::move(line)});
  } else {
    write_line(std::move(pending), std::move(line));
  }
  return token;
}

void MiSession::write_line(Pending pending, std::string line) {
  FRIDAY_LOG(mi, trace, "gdb {} -> {}", process_.pid(), line);
  pending_.push_back(std::move(pending));
  unwritten_ += line;
  flush_input();
}

// Writes as much input as gdb's pipe accepts; epoll reports when there is more room. A broken pipe is noticed as gdb's
// end.
void MiSession::flush_input() {
  while (!unwritten_.empty() && !death_) {
    ssize_t put = ::send(process_.input(), unwritten_.data(), unwritten_.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN) unwritten_.clear();
    if (put < 0) break;
    unwritten_.erase(0, static_cast<size_t>(put));
  }
  bool wanted = !unwritten_.empty();
  if (wanted == watching_input_ || death_) return;
  if (wanted) watch(process_.input(), EPOLLOUT);
  else ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process_.input(), nullptr);
  watching_input_ = wanted;
}

void MiSession::watch(int fd, uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

// --- reading ---

void MiSession::on_readable() {
  std::array<epoll_event, 4> events;
  int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  bool ended = false;
  for (int i = 0; i < count; ++i) {
    int fd = events[i].data.fd;
    if (fd == process_.death()) ended = true;
    else if (fd == process_.input()) flush_input();
    else if (fd == process_.errors()) read_errors();
    else read_output();
  }
  // Reap before the last read: everything that gdb wrote is in the pipes by then.
  if (ended && !death_ && process_.reap()) {
    read_errors();
    read_output();
    die();
  }
  run_callbacks();
}

namespace {

// Reads everything that is available. Returns false at the end of the stream.
template <typename Take>
bool drain(int fd, Take take) {
  char buffer[1 << 14];
  for (;;) {
    ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got > 0) take(std::string_view(buffer, static_cast<size_t>(got)));
    else if (got == 0) return false;
    else if (errno != EINTR) return errno == EAGAIN;
    if (got > 0 && static_cast<size_t>(got) < sizeof buffer)
      return true;  // epoll is level-triggered, so the rest is reported again
  }
}

}  // namespace

void MiSession::read_output() {
  std::vector<MiRecord> records;
  bool open = drain(process_.output(), [&](std::string_view bytes) {
    FRIDAY_LOG(mi, trace, "gdb {} <- {}", process_.pid(), bytes);
    parser_.feed(bytes, records);
  });
  if (!open) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process_.output(), nullptr);
  for (MiRecord& record : records) handle(std::move(record));
}

void MiSession::read_errors() {
  bool open =
      drain(process_.errors(), [&](std::string_view bytes) { append_bounded(error_tail_, bytes, error_tail_limit); });
  if (!open) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process_.errors(), nullptr);
}

void MiSession::handle(MiRecord record) {
  if (auto* result = std::get_if<ResultRecord>(&record)) handle_result(std::move(*result));
  else if (auto* async = std::get_if<AsyncRecord>(&record)) async_.push_back(std::move(*async));
  else if (auto* stream = std::get_if<StreamRecord>(&record)) handle_stream(*stream);
  else if (auto* error = std::get_if<MiParseError>(&record)) handle_parse_error(*error);
}

std::deque<MiSession::Pending>::iterator MiSession::find_pending(std::optional<MiToken> token) {
  return std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.token == token; });
}

// gdb answers commands in order. If the answer to a command is missing, an interruption destroyed the command before
// gdb had read its whole line; the remainder of such a line is answered by an error without a token.
void MiSession::handle_result(ResultRecord record) {
  if (!record.token && fencing_) return send_fence();
  if (find_pending(record.token) == pending_.end()) return;
  for (;;) {
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    if (pending.token != record.token) {
      Error lost{.code = ErrorCode::interrupted,
                 .message = fmt::format("gdb was interrupted before it executed {}", pending.command)};
      deliver(std::move(pending), std::unexpected(std::move(lost)));
      continue;
    }
    if (pending.fence) return handle_fence(!record.is_error());
    MiReply reply = std::move(pending.reply);
    reply.record = std::move(record);
    return deliver(std::move(pending), std::move(reply));
  }
}

// gdb executes commands one at a time, so its output belongs to the oldest unanswered command.
void MiSession::handle_stream(const StreamRecord& record) {
  if (fencing_ && record.kind == StreamKind::log && record.text == "Quit\n") handle_quit();
  if (pending_.empty()) {
    FRIDAY_LOG(mi, debug, "gdb {} says, unasked: {}", process_.pid(), shortened(record.text));
    return;
  }
  MiReply& reply = pending_.front().reply;
  (record.kind == StreamKind::log ? reply.log : reply.text) += record.text;
}

// An answer that does not parse still counts as the answer to its command.
void MiSession::handle_parse_error(const MiParseError& error) {
  auto digits = std::find_if_not(error.line.begin(), error.line.end(), [](char c) { return c >= '0' && c <= '9'; });
  auto token = parse_mi_number(std::string_view(error.line.begin(), digits));
  auto found = find_pending(token);
  if (found != pending_.end() && digits != error.line.end() && *digits == '^') {
    Pending pending = std::move(*found);
    pending_.erase(found);
    auto unreadable = fail(ErrorCode::bad_input, "gdb's answer to {} cannot be read ({} at byte {}): {}",
                           pending.command, error.message, error.column, shortened(error.line));
    deliver(std::move(pending), std::move(unreadable));
  }
  FRIDAY_LOG(mi, info, "gdb {}: a line cannot be read ({} at byte {}): {}", process_.pid(), error.message, error.column,
             shortened(error.line));
}

// --- answers ---

void MiSession::deliver(Pending pending, Result<MiReply> result) {
  if (pending.abandoned || pending.fence) return;
  if (pending.callback) callbacks_.push_back({std::move(pending.callback), std::move(result)});
  else answers_.emplace(pending.token, std::move(result));
}

// Callbacks may send commands and wait, which calls this function again; so each answer is removed before it is
// delivered.
void MiSession::run_callbacks() {
  while (!callbacks_.empty()) {
    Answer next = std::move(callbacks_.front());
    callbacks_.pop_front();
    next.callback(std::move(next.result));
  }
}

std::optional<Result<MiReply>> MiSession::take_result(MiToken token) {
  auto answer = answers_.extract(token);
  if (answer.empty()) return std::nullopt;
  return std::move(answer.mapped());
}

// A SIGINT may reach gdb 13 before it has begun the command, or just after it has finished it. Its "Quit" then appears
// elsewhere: between commands, in the next command, or while gdb reads the next line, of which it then loses the
// beginning. Therefore, after a SIGINT the session sends only fences (commands without effect) until two in a row have
// succeeded: the first shows that gdb has received the signal, the second that no effect of it is left. All other
// commands are held until then. A second SIGINT is sent only after gdb has said "Quit" to the first, because gdb takes
// two at once as a request to disconnect from its target.
void MiSession::abandon(MiToken token) {
  if (answers_.erase(token) > 0 || death_) return;
  if (std::erase_if(held_, [&](const Held& held) { return held.pending.token == token; }) > 0) return;
  auto pending = find_pending(token);
  if (pending == pending_.end()) return;
  pending->abandoned = true;
  if (fencing_) return;
  fencing_ = true;
  fences_passed_ = 0;
  process_.interrupt();
  send_fence();
}

void MiSession::send_fence() {
  MiToken token = ++last_token_;
  write_line({.token = token, .command = "a fence", .callback = nullptr, .fence = true},
             fmt::format("{}-gdb-set confirm off\n", token));
}

// gdb printed "Quit" between commands. Either the abandoned command is still to be executed, so interrupt again; or it
// was the last sign of that command, and the new SIGINT meets an idle gdb, which prints "Quit" once more.
void MiSession::handle_quit() {
  fences_passed_ = 0;
  if (std::any_of(pending_.begin(), pending_.end(), [](const Pending& p) { return p.abandoned; })) process_.interrupt();
  send_fence();
}

void MiSession::handle_fence(bool passed) {
  if (!fencing_) return;
  fences_passed_ = passed ? fences_passed_ + 1 : 0;
  if (fences_passed_ < 2) return send_fence();
  fencing_ = false;
  for (Held& held : std::exchange(held_, {})) write_line(std::move(held.pending), std::move(held.line));
}

void MiSession::die() {
  death_ = process_.exit_text();
  FRIDAY_LOG(mi, info, "gdb {} is gone: {}", process_.pid(), *death_);
  append_bounded(error_tail_, parser_.rest(), error_tail_limit);
  unwritten_.clear();
  for (int fd : {process_.output(), process_.errors(), process_.death()})
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (watching_input_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process_.input(), nullptr);
  for (Held& held : std::exchange(held_, {})) pending_.push_back(std::move(held.pending));
  for (Pending& pending : std::exchange(pending_, {})) {
    Error error = died(pending.command);
    deliver(std::move(pending), std::unexpected(std::move(error)));
  }
}

Error MiSession::died(std::string_view command) const {
  std::string last_words =
      error_tail_.empty() ? "it wrote nothing to its standard error" : "its last words: " + error_tail_;
  while (last_words.ends_with('\n')) last_words.pop_back();
  return {.code = ErrorCode::component_died,
          .message = fmt::format("gdb cannot answer {}: it ended ({}); {}", shortened(command),
                                 death_.value_or("unknown end"), last_words)};
}

std::optional<AsyncRecord> MiSession::take_async() {
  if (async_.empty()) return std::nullopt;
  AsyncRecord record = std::move(async_.front());
  async_.pop_front();
  return record;
}

// --- waiting ---

Error MiSession::deadline_error(std::string_view command, Milliseconds deadline) {
  return {
      .code = ErrorCode::io,
      .message = fmt::format("gdb did not answer {} within {} ms; the command was interrupted, gdb can be used again",
                             shortened(command), deadline.count())};
}

Result<MiReply> MiSession::request(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline) {
  Milliseconds limit = deadline.value_or(options_.deadline);
  auto end = std::chrono::steady_clock::now() + limit;
  MiToken token = send(command);
  for (;;) {
    if (auto result = take_result(token)) return *std::move(result);
    auto left = std::chrono::ceil<Milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      abandon(token);
      return std::unexpected(deadline_error(command, limit));
    }
    if (auto pumped = pump.pump_once(static_cast<int>(left.count())); !pumped) {
      abandon(token);
      return std::unexpected(std::move(pumped).error());
    }
  }
}

Result<ResultRecord> MiSession::run(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline) {
  FRIDAY_TRY(reply, request(command, pump, deadline));
  if (reply.record.is_error()) return std::unexpected(error_of(reply.record));
  return std::move(reply.record);
}

Result<std::string> MiSession::console(std::string_view command, Pump& pump, std::optional<Milliseconds> deadline) {
  FRIDAY_TRY(reply, request(console_command(command), pump, deadline));
  return console_result(std::move(reply));
}

// For an error in Python the record only says that there was one; its message is in the log stream.
Result<std::string> MiSession::console_result(MiReply reply) {
  if (!reply.record.is_error()) return std::move(reply.text);
  Error error = error_of(reply.record);
  while (reply.log.ends_with('\n')) reply.log.pop_back();
  if (reply.log.ends_with(error.message)) error.message = std::move(reply.log);
  else if (!reply.log.empty()) error.message = reply.log + "\n" + error.message;
  return std::unexpected(std::move(error));
}

Result<void> MiSession::wait_ready(Pump& pump) {
  auto end = std::chrono::steady_clock::now() + options_.deadline;
  while (!startup()) {
    auto left = std::chrono::ceil<Milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return fail(ErrorCode::io, "gdb ({}) did not start within {} ms", options_.gdb, options_.deadline.count());
    FRIDAY_TRY_VOID(pump.pump_once(static_cast<int>(left.count())));
  }
  return *startup();
}

std::string MiSession::console_command(std::string_view command) { return "-friday-console " + mi_quote(command); }

}  // namespace friday
