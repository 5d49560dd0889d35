#include "tests/unit/rsp_host.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace friday {
namespace {

// SIGCHLD as a descriptor: each stop of the node and the end of a helper process wakes the loop.
UniqueFd child_events() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  return UniqueFd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

bool RspTestHost::serve(const std::function<bool()>& done, std::vector<int> extra, int seconds) {
  UniqueFd children = child_events();
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!done()) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    std::vector<pollfd> fds = endpoint_.fds();
    size_t own = fds.size();
    fds.push_back({children.get(), POLLIN, 0});
    for (int fd : extra) fds.push_back({fd, POLLIN, 0});
    ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
    signalfd_siginfo info;
    while (::read(children.get(), &info, sizeof info) > 0) {}
    for (size_t i = 0; i < own; ++i)
      if (fds[i].revents) endpoint_.on_ready(fds[i].fd);
    if (node_.running() && !hold) {
      auto stop = node_.poll();
      if (stop && *stop) stopped(**stop);
    }
  }
  return true;
}

void RspTestHost::plant() {
  constexpr std::byte kInt3{0xcc};
  for (auto [address, kind] : breakpoints_) {
    std::byte original;
    if (!node_.read_raw({address}, {&original, 1})) continue;
    planted_[address] = original;
    (void)node_.write_raw({address}, {&kInt3, 1});
  }
}

void RspTestHost::unplant() {
  for (auto& [address, original] : planted_) (void)node_.write_raw({address}, {&original, 1});
  planted_.clear();
}

bool RspTestHost::step_off(ThreadId thread) {
  auto registers = node_.registers(thread);
  if (!registers || !breakpoints_.contains(registers->rip)) return true;
  return node_.single_step(thread).has_value();
}

Result<void> RspTestHost::resume(NodeId, const ResumeRequest& request) {
  requests.push_back(request);
  if (hold) return {};
  auto threads = node_.threads();
  if (threads.empty()) return fail(ErrorCode::node_ended, "the node has ended");
  ThreadId first = threads.front().id;
  if (request.direction != ResumeRequest::Direction::forward) {  // a live process has no history
    endpoint_.report({.kind = StopReport::Kind::history_begin, .thread = first});
    return {};
  }
  for (const ThreadAction& action : request.actions) {
    if (action.kind == ThreadAction::Kind::go) continue;
    run_by_steps(action.thread.value_or(first), action);
    return {};
  }
  if (!watches_.empty()) {
    run_by_steps(first, {});
    return {};
  }
  const int signal = request.actions.empty() ? 0 : request.actions.front().signal;
  bool alive = true;
  if (!signal) alive = step_off(first);
  if (alive) plant();
  FRIDAY_TRY_VOID(node_.resume(first, signal));
  return {};
}

std::optional<StopReport> RspTestHost::changed_watch(ThreadId thread) {
  for (Watch& watch : watches_) {
    std::vector<std::byte> now(watch.value.size());
    if (!node_.read(watch.request.address, now) || now == watch.value) continue;
    watch.value = now;
    return StopReport{.kind = StopReport::Kind::write_watch, .thread = thread, .address = watch.request.address};
  }
  return {};
}

void RspTestHost::run_by_steps(ThreadId thread, const ThreadAction& action) {
  for (;;) {
    auto stop = node_.step(thread, action.signal);
    if (!stop || stop->kind != NodeStop::Kind::signal || stop->signal != SIGTRAP) {
      if (stop) stopped(*stop);
      return;
    }
    if (auto report = changed_watch(thread)) return endpoint_.report(*report);
    auto registers = node_.registers(thread);
    if (!registers) return endpoint_.report({.kind = StopReport::Kind::step, .thread = stop->thread});
    if (breakpoints_.contains(registers->rip))
      return endpoint_.report({.kind = StopReport::Kind::breakpoint, .thread = thread});
    bool in_range = registers->rip >= action.low.value && registers->rip < action.high.value;
    if (action.kind == ThreadAction::Kind::step || (action.kind == ThreadAction::Kind::step_range && !in_range))
      return endpoint_.report({.kind = StopReport::Kind::step, .thread = thread});
  }
}

StopReport RspTestHost::describe(const NodeStop& stop) {
  using Kind = StopReport::Kind;
  StopReport report{.thread = stop.thread, .signal = stop.signal, .status = stop.status};
  switch (stop.kind) {
    case NodeStop::Kind::exited: report.kind = Kind::exited; return report;
    case NodeStop::Kind::killed: report.kind = Kind::killed; return report;
    case NodeStop::Kind::interrupt: report.kind = Kind::interrupted; return report;
    case NodeStop::Kind::signal: report.siginfo = stop.info; break;
  }
  auto registers = node_.registers(stop.thread);
  if (stop.signal == SIGTRAP && registers && breakpoints_.contains(registers->rip - 1)) {
    report.kind = breakpoints_[registers->rip - 1] == StopPointRequest::Kind::hardware ? Kind::hardware_breakpoint
                                                                                       : Kind::breakpoint;
    registers->rip -= 1;
    (void)node_.set_registers(stop.thread, *registers);
  }
  return report;
}

void RspTestHost::stopped(const NodeStop& stop) {
  if (node_.alive()) unplant();
  planted_.clear();
  endpoint_.report(describe(stop));
}

void RspTestHost::interrupt(NodeId) {
  ++interrupts;
  node_.interrupt();
}

Result<void> RspTestHost::set_stop_point(NodeId, const StopPointRequest& request) {
  set_requests.push_back(request);
  std::vector<std::byte> value(std::min<uint64_t>(request.length, 1 << 20));
  FRIDAY_TRY_VOID(node_.read(request.address, value));
  if (request.kind <= StopPointRequest::Kind::hardware) breakpoints_[request.address.value] = request.kind;
  else if (request.kind == StopPointRequest::Kind::write_watch) watches_.push_back({request, value});
  else return fail(ErrorCode::unsupported, "no watchpoints on reads");
  return {};
}

Result<void> RspTestHost::clear_stop_point(NodeId, const StopPointRequest& request) {
  breakpoints_.erase(request.address.value);
  std::erase_if(watches_, [&](const Watch& watch) { return watch.request.address == request.address; });
  return {};
}

Result<std::string> RspTestHost::monitor(NodeId, std::string_view command) {
  if (command == "fail") return fail(ErrorCode::usage, "no such monitor command");
  return "heard: " + std::string(command);
}

Result<void> RspTestHost::kill(NodeId) {
  ++kills;
  return fail(ErrorCode::unsupported, "a recorded node cannot be killed");
}

}  // namespace friday
