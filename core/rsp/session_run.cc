// The part of RspSession that resumes the node and reports why it stopped.
#include <sys/wait.h>

#include <algorithm>

#include "core/rsp/session.h"
#include "core/rsp/signals.h"

namespace friday {
namespace {

bool same_place(const StopPointRequest& a, const StopPointRequest& b) {
  return a.kind == b.kind && a.address == b.address && a.length == b.length;
}

}  // namespace

// ---- stop points

// Parses TYPE,ADDRESS,KIND[;X LENGTH,BYTECODE[X LENGTH,BYTECODE]...]. For watchpoints, KIND is the length in bytes.
std::optional<StopPointRequest> RspSession::parse_stop_point(TextCursor& cursor) const {
  StopPointRequest request;
  auto type = cursor.hex();
  bool commas = cursor.take(",");
  auto address = cursor.hex();
  commas &= cursor.take(",");
  auto length = cursor.hex();
  if (!type || *type > 4 || !commas || !address || !length) return {};
  request.kind = static_cast<StopPointRequest::Kind>(*type);
  request.address = Addr{*address};
  bool watch = request.kind >= StopPointRequest::Kind::write_watch;
  request.length = watch ? *length : 1;
  if (request.length == 0 || request.address.value + request.length < request.length) return {};
  if (cursor.take(";"))
    while (cursor.take("X")) {
      auto size = cursor.hex();
      if (!size || !cursor.take(",") || *size > kRspPacketSize) return {};
      auto code = cursor.chars(2 * *size);
      auto bytes = code ? from_hex(*code) : std::nullopt;
      if (!bytes) return {};
      request.conditions.push_back(std::move(*bytes));
    }
  if (!cursor.at_end()) return {};
  return request;
}

RspSession::Reply RspSession::set_stop_point(TextCursor& cursor) {
  auto request = parse_stop_point(cursor);
  if (!request) return kBadPacket;
  if (auto done = host_.set_stop_point(node_.id(), *request); !done) return error_reply(done.error());
  bool known = std::any_of(stop_points_.begin(), stop_points_.end(),
                           [&](const auto& other) { return same_place(other, *request); });
  if (!known) {
    request->conditions.clear();
    stop_points_.push_back(std::move(*request));
  }
  return "OK";
}

RspSession::Reply RspSession::clear_stop_point(TextCursor& cursor) {
  auto request = parse_stop_point(cursor);
  if (!request) return kBadPacket;
  // gdb expects success when it removes a stop point that does not exist. Stop points of others must not be removed.
  if (!std::erase_if(stop_points_, [&](const auto& other) { return same_place(other, *request); })) return "OK";
  auto done = host_.clear_stop_point(node_.id(), *request);
  return done ? "OK" : error_reply(done.error());
}

// ---- resuming

std::vector<ThreadId> RspSession::take_moved() {
  std::vector<ThreadId> moved;
  for (auto [thread, rip] : rip_before_)
    if (auto now = node_.registers(thread); now && now->rip != rip) moved.push_back(thread);
  rip_before_.clear();
  return moved;
}

// There is no immediate reply: the stop reply comes later, or before resume() returns.
RspSession::Reply RspSession::resume(ResumeRequest request) {
  request.moved = take_moved();
  waiting_ = true;
  refusal_.clear();
  auto done = host_.resume(node_.id(), request);
  if (done) return {};
  waiting_ = false;
  return error_reply(done.error());
}

RspSession::Reply RspSession::resume_kinds(TextCursor&) { return "vCont;c;C;s;S;t;r"; }

// Parses ACTION[:THREAD].
std::optional<ThreadAction> RspSession::parse_action(std::string_view text) const {
  TextCursor cursor(text);
  ThreadAction action;
  char kind = cursor.peek();
  if (!cursor.chars(1)) return {};
  if (kind == 'C' || kind == 'S') {
    auto signal = cursor.hex();
    if (!signal || *signal > 255) return {};
    action.signal = linux_signal(static_cast<int>(*signal));
  }
  if (kind == 's' || kind == 'S') action.kind = ThreadAction::Kind::step;
  else if (kind == 'r') {
    action.kind = ThreadAction::Kind::step_range;
    auto low = cursor.hex();
    bool comma = cursor.take(",");
    auto high = cursor.hex();
    if (!low || !comma || !high) return {};
    action.low = Addr{*low};
    action.high = Addr{*high};
  } else if (kind != 'c' && kind != 'C') {
    return {};
  }
  if (cursor.take(":")) {
    auto thread = parse_thread(cursor);
    if (!thread) return {};
    action.thread = thread->all ? std::nullopt : std::optional(thread->id.value_or(ThreadId{UINT32_MAX}));
  }
  if (!cursor.at_end()) return {};
  return action;
}

RspSession::Reply RspSession::resume_actions(TextCursor& cursor) {
  ResumeRequest request;
  while (!cursor.at_end()) {
    auto action = parse_action(cursor.until(';'));
    if (!action) return kBadPacket;
    if (action->thread == ThreadId{UINT32_MAX}) action->thread = current();  // "any thread"
    request.actions.push_back(*action);
  }
  if (request.actions.empty()) return kBadPacket;
  return resume(std::move(request));
}

// The older packets c, C SIGNAL, s, S SIGNAL (the letter has already been consumed). An address to resume at is not
// accepted, since current versions of gdb do not send one.
RspSession::Reply RspSession::resume_all(TextCursor& cursor) {
  ThreadAction action;
  auto signal = cursor.hex();
  if (!cursor.at_end() || (signal && *signal > 255)) return kBadPacket;
  if (signal) action = {.thread = current(), .signal = linux_signal(static_cast<int>(*signal))};
  ResumeRequest request{.actions = {action}};
  if (action.thread) request.actions.push_back({});
  return resume(std::move(request));
}

RspSession::Reply RspSession::step_one(TextCursor& cursor) {
  auto signal = cursor.hex();
  if (!cursor.at_end() || (signal && *signal > 255)) return kBadPacket;
  ThreadAction action{.kind = ThreadAction::Kind::step, .thread = run_thread_.value_or(current())};
  if (signal) action.signal = linux_signal(static_cast<int>(*signal));
  return resume({.actions = {action}});
}

RspSession::Reply RspSession::reverse_continue(TextCursor& cursor) {
  if (!cursor.at_end() || !host_.abilities(node_.id()).reverse) return "";
  return resume({.direction = ResumeRequest::Direction::reverse_continue, .thread = selected()});
}

RspSession::Reply RspSession::reverse_step(TextCursor& cursor) {
  if (!cursor.at_end() || !host_.abilities(node_.id()).reverse) return "";
  return resume({.direction = ResumeRequest::Direction::reverse_step, .thread = run_thread_.value_or(selected())});
}

void RspSession::interrupt() {
  if (waiting_) host_.interrupt(node_.id());  // otherwise the stop reply and the interrupt crossed on the way
}

// ---- stops

void RspSession::report(const StopReport& report) {
  last_stop_ = report;
  rip_before_.clear();
  if (!waiting_) return;
  waiting_ = false;
  send_(stop_reply(report));
}

void RspSession::say(std::string_view text) {
  if (waiting_) send_("O" + to_hex(text));
}

std::string RspSession::stop_reply(const StopReport& report) {
  const char* process = multiprocess_ ? ";process:1" : "";
  if (report.kind == StopReport::Kind::exited) return fmt::format("W{:02x}{}", report.status & 0xff, process);
  if (report.kind == StopReport::Kind::killed) return fmt::format("X{:02x}{}", gdb_signal(report.signal), process);
  return signal_reply(report);
}

std::string RspSession::signal_reply(const StopReport& report) {
  using Kind = StopReport::Kind;
  int signal = report.kind == Kind::signal ? report.signal : report.kind == Kind::interrupted ? SIGINT : SIGTRAP;
  general_thread_ = report.thread;  // after a stop reply, gdb considers this thread selected and sends no Hg
  std::string reply = fmt::format("T{:02x}thread:{};", gdb_signal(signal), thread_text(report.thread));
  switch (report.kind) {
    case Kind::breakpoint:
      if (knows_swbreak_) reply += "swbreak:;";
      break;
    case Kind::hardware_breakpoint:
      if (knows_hwbreak_) reply += "hwbreak:;";
      break;
    case Kind::write_watch: reply += fmt::format("watch:{:x};", report.address.value); break;
    case Kind::read_watch: reply += fmt::format("rwatch:{:x};", report.address.value); break;
    case Kind::access_watch: reply += fmt::format("awatch:{:x};", report.address.value); break;
    case Kind::history_begin: reply += "replaylog:begin;"; break;
    case Kind::history_end: reply += "replaylog:end;"; break;
    default: break;
  }
  if (auto file = load(report.thread, false))
    for (unsigned number : {kRegisterRbp, kRegisterRsp, kRegisterRip, kRegisterEflags}) {
      reply += fmt::format("{:02x}:", number);
      file->append(reply, number);
      reply += ';';
    }
  return reply;
}

// A client that has just connected asks why the node stopped. It is told about a signal, but not about breakpoints and
// watchpoints that it has not set. If the node runs, it is stopped first.
RspSession::Reply RspSession::why_stopped(TextCursor&) {
  using Kind = StopReport::Kind;
  if (node_.threads().empty()) {
    bool told = last_stop_ && (last_stop_->kind == Kind::exited || last_stop_->kind == Kind::killed);
    return stop_reply(told ? *last_stop_ : StopReport{.kind = Kind::exited});
  }
  StopReport report{.thread = current()};
  if (!node_.registers(report.thread)) {
    waiting_ = true;
    host_.interrupt(node_.id());
    return {};
  }
  if (last_stop_ && last_stop_->kind == Kind::signal && last_stop_->thread == report.thread) report = *last_stop_;
  return stop_reply(report);
}

// ---- the end

RspSession::Reply RspSession::detach(TextCursor&) {
  close();
  closing_ = true;
  return "OK";
}

RspSession::Reply RspSession::kill(TextCursor&) {
  (void)host_.kill(node_.id());  // this packet has no reply, so the client cannot be told of a refusal
  closing_ = true;
  return {};
}

RspSession::Reply RspSession::kill_process(TextCursor&) {
  auto done = host_.kill(node_.id());
  return done ? "OK" : error_reply(done.error());
}

void RspSession::close() {
  if (closed_) return;
  closed_ = true;
  waiting_ = false;
  for (const StopPointRequest& request : stop_points_) (void)host_.clear_stop_point(node_.id(), request);
  stop_points_.clear();
  host_.disconnected(node_.id());
}

}  // namespace friday
