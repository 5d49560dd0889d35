#include "core/debug/runner.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "core/base/alarm.h"
#include "core/base/log.h"
#include "core/trace/behind_call.h"
#include "core/trace/calls.h"

namespace friday {

namespace {
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
    case Stop::Kind::event: return events_.judge(std::move(stop), true);
    case Stop::Kind::started: return with_kind(std::move(stop), Stop::Kind::step);
    case Stop::Kind::exit:
    case Stop::Kind::signal: return judge_end(std::move(stop));
    case Stop::Kind::divergence:
      stop.message = describe(*stop.divergence);
      return with_kind(std::move(stop), Stop::Kind::divergence);
    default: return DebugStop{std::move(stop), {}, {}};
  }
}

DebugStop Runner::judge_end(Stop stop) {
  const ReplayNode& node = *session_.find(stop.node);
  stop.message = ending_text(node);
  if (node.outcome().how == NodeOutcome::How::signal) stop.signal = node.outcome().detail;
  if (node.outcome().how == NodeOutcome::How::end_of_recording && node.info().end.how == NodeEnd::How::signal)
    stop.signal = static_cast<int>(node.info().end.detail);
  DebugStop out = with_kind(std::move(stop), Stop::Kind::exit);
  if (out.signal) out.ids = events_.catching_death(out.node, out.signal);
  if (stop_points_.keep_hits(out, true) == GroupStopPoints::Verdict::interrupted) out.ids.clear();
  return out;
}

// The place of a hit of a watch, as the n-th change of its bytes.
std::optional<Mark> Runner::mark_of_change(const DebugStop& stop, const Mark& here) {
  if (stop.writer) return std::nullopt;
  ReplayNode& node = *session_.find(stop.node);
  if (node.call_site(stop.thread)) return mark_behind_call(node, stop.thread);
  for (const WatchHit& hit : stop.hits)
    if (hit.nth && hit.new_bytes.size() <= kMostMarkBytes)
      return Mark{here.node, here.event, Passage{hit.low, hit.nth, hit.new_bytes.size()}};
  return std::nullopt;
}

std::optional<Mark> Runner::mark_behind_call(ReplayNode& node, ThreadId thread) {
  const auto behind = node.program_counter(thread);
  if (!behind || !node.refresh_control()) return std::nullopt;
  const auto events = events_behind_call(node.reader(), node.control().cursor);
  return events ? std::optional(Mark{node.id(), {*events}, Passage{Addr{*behind}, 1}}) : std::nullopt;
}

// Where the group stands at a stop that has just been judged. None if only a run that counts would tell.
std::optional<Mark> Runner::known_mark(const DebugStop& stop) {
  if (session_.sync() != SyncMode::clock || !history_.is_unaltered()) return std::nullopt;
  const Mark here = session_.mark(stop.node);
  switch (stop.kind) {
    case Stop::Kind::caught:
    case Stop::Kind::timer:
    case Stop::Kind::reached:
    case Stop::Kind::exit: return here;
    case Stop::Kind::breakpoint:
      if (const auto nth = session_.find(stop.node)->breakpoints().passage(stop.pc))
        return Mark{here.node, here.event, Passage{stop.pc, *nth}};
      return std::nullopt;
    case Stop::Kind::watch: return mark_of_change(stop, here);
    default: return std::nullopt;
  }
}

DebugStop Runner::marked(DebugStop stop) {
  stop.mark = known_mark(stop);
  return stop;
}

Result<DebugStop> Runner::run_group(std::optional<double> timeout, const Ends& ends) {
  history_.begin_run();
  std::optional<Alarm> alarm;
  struct Deadline {  // resets the deadline after the run
    std::optional<std::chrono::steady_clock::time_point>& moment;
    ~Deadline() { moment.reset(); }
  } deadline{session_.deadline};
  session_.deadline.reset();
  if (timeout) {
    alarm.emplace();
    alarm->set(std::chrono::nanoseconds(static_cast<int64_t>(*timeout * 1e9)));
    session_.deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(*timeout * 1e9));
  }
  for (;;) {
    FRIDAY_TRY_VOID(events_.prepare());
    auto stop = session_.run();
    if (!stop) return std::unexpected(stop.error());
    FRIDAY_LOG(debug, debug, "stop: {}, node {}, thread {}, at {:#x}", name_of(stop->kind), stop->node,
               stop->thread.value, stop->pc.value);
    note_stop(*stop);
    if (ends && ends(*stop)) return with_kind(std::move(*stop), Stop::Kind::reached);
    if (stop_points_.has_lost_part()) return lost_part(std::move(*stop));
    if (timeout && stop->kind == Stop::Kind::interrupt && session_.deadline &&
        std::chrono::steady_clock::now() >= *session_.deadline)
      return with_kind(std::move(*stop), Stop::Kind::pause);
    auto judged = judge(*stop);
    if (stop_points_.has_lost_part()) return lost_part(std::move(*stop));
    if (!judged) continue;
    return marked(std::move(*judged));
  }
}

Result<void> Runner::end_users_commands() {
  auto ended = gdbs_.end_users_commands();
  alterations_.note_users_stores();
  return ended;
}

DebugStop Runner::lost_part(Stop stop) {
  stop.message = stop_points_.take_lost_part().value();
  return with_kind(std::move(stop), Stop::Kind::failure);
}

// Judges what happened in runs that gdbs requested and the user has not heard of: the end of a node, or a stop at a
// stop point.
std::optional<DebugStop> Runner::judge_pending() {
  if (auto ended = judge_pending_end()) return ended;
  if (auto undecided = stop_points_.take_undecided()) {
    note_stop(*undecided);
    if (undecided->kind == Stop::Kind::caught) focus_.set_reached(session_.mark(undecided->node));
    if (auto decided = stop_points_.decide(std::move(*undecided))) return decided;
    focus_.forget_reached();
  }
  if (pending_event_) {
    note_stop(*pending_event_);
    return std::exchange(pending_event_, std::nullopt);
  }
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
  last_kind_ = stop.kind;
  focus_.note_stop(stop);
  focus_.select_thread(stop.node, stop.thread);
  gdbs_.group_moved(stop.node, stop.thread);
}

void Runner::restart() {
  events_.restart();
  (void)stop_points_.take_undecided();
  pending_stop_.reset();
  pending_event_.reset();
  pending_ends_.clear();
  last_client_stop_.reset();
  last_kind_ = Stop::Kind::started;
}

Result<DebugStop> Runner::resume(std::optional<double> timeout, std::optional<Mark> last) {
  struct Ending {
    Runner& runner;
    ~Ending() {
      runner.events_.clear_target();
      (void)runner.gdbs_.take_interrupt();  // Ctrl-C during a run must not make a later command of gdb fail
    }
  } ending{*this};
  const Running running(gdbs_);
  focus_.forget_reached();
  stop_points_.follow_missed_libraries();
  FRIDAY_TRY_VOID(end_users_commands());
  if (auto stop = judge_pending()) return std::move(*stop);
  if (last) events_.set_target({last, false});
  return run_group(timeout);
}

Result<DebugStop> Runner::run_to(std::optional<Mark> target, std::optional<double> timeout) {
  if (target) {
    const auto& [id, event, passage] = *target;
    FRIDAY_TRY(node, session_.node(id));
    const uint64_t count = session_.schedule().event_count(id);
    if (event.value >= count)
      return fail(ErrorCode::usage, "node {} has no event {}{}", id, event.value,
                  count ? fmt::format(": the last is {}", count - 1) : "");
    if (node->events_done() > event.value)
      return fail(ErrorCode::usage, "node {} is past its event {}: restart first", id, event.value);
  }
  const Running running(gdbs_);
  focus_.forget_reached();
  struct Ending {
    Runner& runner;
    ~Ending() {
      runner.events_.clear_target();
      (void)runner.gdbs_.take_interrupt();
    }
  } ending{*this};
  FRIDAY_TRY_VOID(end_users_commands());
  if (auto ended = judge_pending_end()) return std::move(*ended);
  events_.set_target({target});
  (void)stop_points_.take_undecided();
  pending_stop_.reset();
  pending_event_.reset();
  return run_group(timeout);
}

Result<DebugStop> Runner::search(std::optional<Mark> target, const Ends& ends, Hits hits, bool hits_first) {
  const Running running(gdbs_);
  focus_.forget_reached();
  const EventStops::Aiming aiming(events_, {target, hits == Hits::passed_over, hits_first});
  return run_group(std::nullopt, ends);
}

Result<void> Runner::disarm_events() {
  const EventStops::Aiming nowhere(events_, {});
  return events_.prepare();
}

Result<Stop> Runner::step_unstopped(NodeId id, ThreadId thread, const std::function<bool(const Stop&)>& passes) {
  const EventStops::Aiming nowhere(events_, {});
  FRIDAY_TRY_VOID(events_.prepare());
  return session_.step(id, thread, passes);
}

void Runner::stand(const Mark& mark, ThreadId thread, Stop::Kind kind) {
  note_stop(Stop{.kind = kind, .node = mark.node, .thread = thread});
  if (kind == Stop::Kind::event) events_.stand_before(mark);
}

namespace {
// The MI command of a step.
Result<std::string> mi_step(const std::string& command) {
  if (constexpr std::string_view back = "reverse-"; command.starts_with(back)) {
    FRIDAY_TRY(forward, mi_step(command.substr(back.size())));
    if (!forward.starts_with("-exec-until")) return forward + " --reverse";
  }
  if (command == "step") return "-exec-step";
  if (command == "next") return "-exec-next";
  if (command == "stepi") return "-exec-step-instruction";
  if (command == "nexti") return "-exec-next-instruction";
  if (command == "finish") return "-exec-finish";
  if (command.starts_with("until") || command.starts_with("advance"))
    return "-exec-until" + command.substr(std::min(command.find(' '), command.size()));
  return fail(ErrorCode::usage,
              "cannot step by \"{}\": use step, next, stepi, nexti or finish, each also with reverse- before it, or "
              "until LOCATION",
              command);
}

// gdb sets a breakpoint where the selected frame returns to, and takes the program for running from then on if it
// cannot, as where it has taken something else for a caller.
Result<void> check_caller(GdbLink& gdb, Pump& pump) {
  auto read = gdb.console(
      "python frame = gdb.selected_frame().older(); frame is None or gdb.selected_inferior().read_memory(frame.pc(), "
      "1)",
      pump);
  if (!read && read.error().code == ErrorCode::bad_input)
    return fail(ErrorCode::unsupported,
                "where this function returns to is not known: what looks like its caller is no code");
  return read ? Result<void>() : std::unexpected(read.error());
}
}  // namespace

Result<DebugStop> Runner::step(NodeId id, const std::string& command) {
  focus_.forget_reached();
  FRIDAY_TRY(node, session_.readable(id));
  if (command.starts_with("reverse-")) FRIDAY_TRY_VOID(focus_.started_node(id));
  else FRIDAY_TRY_VOID(node->check_goes_on("there is nothing left to step; the reverse commands go back"));
  FRIDAY_TRY_VOID(focus_.current_thread(id));
  FRIDAY_TRY(l, gdbs_.connect(id));
  FRIDAY_TRY_VOID(end_users_commands());
  if (auto stop = judge_pending()) return std::move(*stop);
  last_client_stop_.reset();
  FRIDAY_TRY(mi, mi_step(command));
  if (command == "finish")
    if (auto caller = check_caller(*l, gdbs_); !caller)
      return fail(caller.error().code, "node {} cannot finish here: {}", id, caller.error().message);
  const Running running(gdbs_);
  auto done = l->execute(mi, gdbs_);
  if (!done) {
    if (done.error().code != ErrorCode::bad_input) return std::unexpected(done.error());
    return fail(ErrorCode::unsupported, "node {} cannot {} here: {}", id, command, done.error().message);
  }
  if (auto stop = judge_pending()) return std::move(*stop);
  bool nothing_before = false;
  if (last_client_stop_) switch (last_client_stop_->kind) {
      case Stop::Kind::exit:
      case Stop::Kind::end:
      case Stop::Kind::divergence:
      case Stop::Kind::signal:
      case Stop::Kind::interrupt:
      case Stop::Kind::failure:
        if (auto judged = judge(*last_client_stop_)) return std::move(*judged);
        break;
      case Stop::Kind::started: nothing_before = true; break;
      default: break;
    }
  DebugStop out;
  out.kind = Stop::Kind::step;
  out.node = id;
  out.thread = focus_.selected_thread(id);
  out.returned = done->returned;
  if (nothing_before) out.message = "there is nothing to go back to before this place";
  // A step back has given the node another process.
  if (auto pc = session_.find(id)->program_counter(focus_.selected_thread(id))) out.pc = Addr{*pc};
  return out;
}

}  // namespace friday
