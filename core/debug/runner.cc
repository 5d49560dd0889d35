#include "core/debug/runner.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>

#include "core/base/log.h"
#include "core/trace/calls.h"

namespace friday {

namespace {
DebugStop with_kind(Stop stop, Stop::Kind kind) {
  DebugStop out{std::move(stop), {}, {}};
  out.kind = kind;
  return out;
}

std::string ending_text(const ReplayNode& node) {
  const NodeOutcome& outcome = node.outcome();
  switch (outcome.how) {
    case NodeOutcome::How::exited: return fmt::format("exited with {}", outcome.detail);
    case NodeOutcome::How::signal:
      return fmt::format("killed by {} ({}) {}", signal_text(outcome.detail), strsignal(outcome.detail), outcome.text);
    case NodeOutcome::How::end_of_recording:
      return "the recording of this node ends here: " + describe(node.info().end);
    default: return "ended";
  }
}
}  // namespace

// What a stop of the replay means to the user; none if the group must continue.
std::optional<DebugStop> Runner::judge(Stop stop) {
  switch (stop.kind) {
    case Stop::Kind::breakpoint: return stop_points_.judge_breakpoint(std::move(stop), hits());
    case Stop::Kind::watch: return stop_points_.judge_watch(std::move(stop), hits());
    case Stop::Kind::event: return run_to_ ? judge_target(std::move(stop)) : judge_timer(std::move(stop));
    case Stop::Kind::started: return with_kind(std::move(stop), Stop::Kind::step);
    case Stop::Kind::exit:
    case Stop::Kind::signal:
      stop.message = ending_text(*session_.find(stop.node));
      return with_kind(std::move(stop), Stop::Kind::exit);
    case Stop::Kind::divergence:
      stop.message = describe(*stop.divergence);
      return with_kind(std::move(stop), Stop::Kind::divergence);
    default: return DebugStop{std::move(stop), {}, {}};
  }
}

namespace {

// Makes a blocked waitpid return with EINTR after a time, and every 20 ms after that, by SIGURG, whose handler does
// nothing. The repetition is needed because a signal that arrives just before waitpid has no effect.
class Alarm {
 public:
  explicit Alarm(double seconds) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) return;
    const long ns = static_cast<long>(seconds * 1e9);
    itimerspec when{{0, 20000000}, {ns / 1000000000, std::max(1l, ns % 1000000000)}};
    timer_settime(timer_, 0, &when, nullptr);
    armed_ = true;
  }
  ~Alarm() {
    if (armed_) timer_delete(timer_);
  }

 private:
  timer_t timer_{};
  bool armed_ = false;
};

}  // namespace

Result<uint32_t> Runner::add_timer(double seconds) {
  if (!(seconds > 0)) return fail(ErrorCode::usage, "the period of a timer must be greater than 0 s, not {}", seconds);
  FRIDAY_TRY(id, stop_points_.add_timer(fmt::format("every {} s", seconds)));
  timers_[id] = Timer{static_cast<int64_t>(seconds * 1e9), 0};
  return id;
}

bool Runner::is_enabled(uint32_t timer) const {
  const StopPoint* point = stop_points_.table().find({timer});
  return point && point->enabled;
}

// Finds the timer that is due first, and makes the node of the first event at or after that time wait before the event.
void Runner::set_next_timer() {
  if (timer_node_) (void)session_.stop_at(*timer_node_, ~uint64_t{0});
  timer_node_.reset();
  if (run_to_) return;
  int64_t due = INT64_MAX;
  const Schedule& order = session_.schedule();
  for (auto& [id, timer] : timers_) {
    if (!is_enabled(id)) continue;
    if (!timer.next)
      timer.next = order.time_of(order.turns().front().node, {order.turns().front().first}).l + timer.period;
    due = std::min(due, timer.next);
  }
  if (due == INT64_MAX) return;
  uint64_t position = order.position_at({due, 0, {}, 0});
  // A node that has no process yet cannot be told to wait; use the next event of a node that has one.
  for (; position < order.event_count(); position++) {
    const Mark mark = order.at_position(position);
    ReplayNode* node = session_.find(mark.node);
    if (!node->has_process() || node->state() != NodeState::live || node->events_done() > mark.event.value) continue;
    if (session_.stop_at(mark.node, mark.event.value)) timer_node_ = mark.node;
    return;
  }
}

std::optional<DebugStop> Runner::judge_timer(Stop stop) {
  const Schedule& order = session_.schedule();
  const uint64_t event = session_.mark(stop.node).event.value;
  if (event >= order.event_count(stop.node)) return std::nullopt;
  const int64_t now = order.time_of(stop.node, {event}).l;
  DebugStop out = with_kind(std::move(stop), Stop::Kind::timer);
  for (auto& [id, timer] : timers_) {
    if (!is_enabled(id) || timer.next > now) continue;
    out.ids.push_back(id);
    while (timer.next <= now) timer.next += timer.period;
  }
  if (out.ids.empty()) return std::nullopt;
  return out;
}

// Makes the node of run_to()'s target wait before its event. For a node that is not forked yet this has no effect, and
// node_started() calls it again.
void Runner::park_for_target() {
  if (!run_to_ || !run_to_->target) return;
  const Mark target = *run_to_->target;
  ReplayNode* node = session_.find(target.node);
  if (node->has_process() && node->state() == NodeState::live && session_.stop_at(target.node, target.event.value))
    parked_ = target;
}

void Runner::forget_target() {
  if (ReplayNode* node = parked_ ? session_.find(parked_->node) : nullptr; node && node->has_process())
    (void)session_.stop_at(node->id(), ~uint64_t{0});
  parked_.reset();
}

std::optional<DebugStop> Runner::judge_target(Stop stop) {
  const auto& target = run_to_->target;
  if (!target || stop.node != target->node || session_.mark(stop.node).event < target->event) return std::nullopt;
  // Timers that were due on the way are skipped.
  const int64_t now = session_.schedule().time_of(stop.node, target->event).l;
  for (auto& [id, timer] : timers_)
    while (timer.next && timer.next <= now) timer.next += timer.period;
  return with_kind(std::move(stop), Stop::Kind::reached);
}

Result<DebugStop> Runner::run_group(std::optional<double> timeout) {
  std::optional<Alarm> alarm;
  struct Deadline {  // resets the deadline after the run
    std::optional<std::chrono::steady_clock::time_point>& moment;
    ~Deadline() { moment.reset(); }
  } deadline{session_.deadline};
  session_.deadline.reset();
  if (timeout) {
    alarm.emplace(*timeout);
    session_.deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(*timeout * 1e9));
  }
  for (;;) {
    // Also after the last timer was removed, because its node must no longer wait.
    if (!timers_.empty() || timer_node_) set_next_timer();
    auto stop = session_.run();
    if (!stop) return std::unexpected(stop.error());
    FRIDAY_LOG(debug, debug, "stop: {}, node {}, thread {}, at {:#x}", name_of(stop->kind), stop->node,
               stop->thread.value, stop->pc.value);
    note_stop(*stop);
    if (stop_points_.has_lost_part()) return lost_part(std::move(*stop));
    if (timeout && stop->kind == Stop::Kind::interrupt && std::chrono::steady_clock::now() >= *session_.deadline)
      return with_kind(std::move(*stop), Stop::Kind::pause);
    auto judged = judge(*stop);
    if (stop_points_.has_lost_part()) return lost_part(std::move(*stop));
    if (!judged) continue;
    if (judged->kind == Stop::Kind::timer) focus_.set_reached(session_.mark(judged->node));
    if (judged->kind == Stop::Kind::reached) focus_.set_reached(*run_to_->target);
    return std::move(*judged);
  }
}

DebugStop Runner::lost_part(Stop stop) {
  stop.message = stop_points_.take_lost_part().value();
  return with_kind(std::move(stop), Stop::Kind::failure);
}

// Judges what happened in runs that gdbs requested and the user has not heard of: the end of a node, or a stop at a
// stop point.
std::optional<DebugStop> Runner::judge_pending() {
  if (auto ended = judge_pending_end()) return ended;
  if (!pending_stop_) return std::nullopt;
  const Stop stop = *std::exchange(pending_stop_, std::nullopt);
  note_stop(stop);
  return judge(stop);
}

std::optional<DebugStop> Runner::judge_pending_end() {
  if (pending_ends_.empty()) return std::nullopt;
  Stop stop = std::move(pending_ends_.front());
  pending_ends_.pop_front();
  note_stop(stop);
  return judge(std::move(stop));
}

void Runner::note_stop(const Stop& stop) {
  focus_.note_stop(stop);
  focus_.select_thread(stop.node, stop.thread);
  gdbs_.group_moved(stop.node, stop.thread);
}

void Runner::restart() {
  for (auto& [id, timer] : timers_) timer.next = 0;
  timer_node_.reset();
  parked_.reset();
  pending_stop_.reset();
  pending_ends_.clear();
  last_client_stop_.reset();
}

Result<DebugStop> Runner::resume(std::optional<double> timeout) {
  struct Forget {  // Ctrl-C during a run must not make a later command of gdb fail
    GdbPool& gdbs;
    ~Forget() { (void)gdbs.take_interrupt(); }
  } forget{gdbs_};
  focus_.forget_reached();
  stop_points_.follow_missed_libraries();
  forget_target();
  FRIDAY_TRY_VOID(gdbs_.end_users_commands());
  if (auto stop = judge_pending()) return std::move(*stop);
  return run_group(timeout);
}

Result<DebugStop> Runner::run_to(std::optional<Mark> target, std::optional<double> timeout) {
  if (target) {
    const auto& [id, event, ordinal] = *target;
    FRIDAY_TRY(node, session_.node(id));
    const uint64_t count = session_.schedule().event_count(id);
    if (event.value >= count)
      return fail(ErrorCode::usage, "node {} has no event {}{}", id, event.value,
                  count ? fmt::format(": the last is {}", count - 1) : "");
    if (node->events_done() > event.value)
      return fail(ErrorCode::usage, "node {} is past its event {}: restart first", id, event.value);
  }
  focus_.forget_reached();
  struct Ending {
    Runner& runner;
    ~Ending() {
      runner.run_to_.reset();
      (void)runner.gdbs_.take_interrupt();
    }
  } ending{*this};
  FRIDAY_TRY_VOID(gdbs_.end_users_commands());
  if (auto ended = judge_pending_end()) return std::move(*ended);
  run_to_ = RunTo{target};
  pending_stop_.reset();
  set_next_timer();
  park_for_target();
  auto stop = run_group(timeout);
  forget_target();
  return stop;
}

namespace {
// The MI command of a step.
Result<std::string> mi_step(const std::string& command) {
  if (command == "step") return "-exec-step";
  if (command == "next") return "-exec-next";
  if (command == "stepi") return "-exec-step-instruction";
  if (command == "nexti") return "-exec-next-instruction";
  if (command == "finish") return "-exec-finish";
  if (command.starts_with("until") || command.starts_with("advance"))
    return "-exec-until" + command.substr(std::min(command.find(' '), command.size()));
  return fail(ErrorCode::usage, "cannot step by \"{}\": use step, next, stepi, nexti, finish or until LOCATION",
              command);
}
}  // namespace

Result<DebugStop> Runner::step(NodeId id, const std::string& command) {
  focus_.forget_reached();
  FRIDAY_TRY(node, session_.readable(id));
  FRIDAY_TRY_VOID(node->check_goes_on("there is nothing left to step"));
  FRIDAY_TRY_VOID(focus_.current_thread(id));
  FRIDAY_TRY(l, gdbs_.connect(id));
  forget_target();
  FRIDAY_TRY_VOID(gdbs_.end_users_commands());
  if (auto stop = judge_pending()) return std::move(*stop);
  last_client_stop_.reset();
  FRIDAY_TRY(mi, mi_step(command));
  if (auto done = l->execute(mi, gdbs_); !done) {
    if (done.error().code != ErrorCode::bad_input) return std::unexpected(done.error());
    return fail(ErrorCode::unsupported, "node {} cannot {} here: {}", id, command, done.error().message);
  }
  if (auto stop = judge_pending()) return std::move(*stop);
  if (last_client_stop_) switch (last_client_stop_->kind) {
      case Stop::Kind::exit:
      case Stop::Kind::end:
      case Stop::Kind::divergence:
      case Stop::Kind::signal:
      case Stop::Kind::interrupt:
      case Stop::Kind::failure:
        if (auto judged = judge(*last_client_stop_)) return std::move(*judged);
        break;
      default: break;
    }
  DebugStop out;
  out.kind = Stop::Kind::step;
  out.node = id;
  out.thread = focus_.selected_thread(id);
  if (auto pc = node->program_counter(focus_.selected_thread(id))) out.pc = Addr{*pc};
  return out;
}

}  // namespace friday
