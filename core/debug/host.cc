// What a gdb asks of the group through its endpoint. A resume runs here, to the stop, before it returns: gdb waits in its
// own process, and the reactor has nothing better to do.
#include <algorithm>
#include <chrono>
#include <csignal>

#include "core/debug/debugger.h"

namespace friday {

namespace {
BreakpointOwner client(NodeId node) { return {BreakpointOwner::Kind::rsp_client, node.value}; }
}  // namespace

Result<void> Debugger::resume(NodeId id, const ResumeRequest& request) {
  if (request.direction != ResumeRequest::Direction::forward)
    return fail(ErrorCode::unsupported, "reverse execution is not there yet; use restart and a breakpoint");
  FRIDAY_TRY(node, session_->readable(id));
  if (node->state() == NodeState::ended && request.moved.empty()) {
    ReplayStop stop;
    stop.kind = ReplayStop::Kind::node_ended;
    stop.node = id;
    report(id, stop, std::nullopt);
    return {};
  }
  FRIDAY_TRY_VOID(state(id).link->view().commit());
  for (auto& [tid, thread] : node->threads_by_tid())
    if (thread.detour) {
      auto stop = run_guarded(*node, ThreadId{thread.number});
      epoch_++;
      report(id, stop, ThreadId{thread.number});
      return {};
    }
  std::optional<ThreadId> stepping;
  const ThreadAction* action = nullptr;
  for (const auto& a : request.actions)
    if (a.kind != ThreadAction::Kind::go) {
      action = &a;
      stepping = a.thread ? *a.thread : state(id).stopped;
      break;
    }
  auto stop = stepping ? step_range(id, *stepping, *action) : session_->run();
  // What other nodes do and what conditions refuse is passed over, as in a run of the user's.
  while (stop && (stop->kind == ReplayStop::Kind::breakpoint || stop->kind == ReplayStop::Kind::watch)) {
    bool passed_over = false;
    if (std::ranges::any_of(stop->owners, [&](const BreakpointOwner& o) { return o.kind != BreakpointOwner::Kind::rsp_client; })) {
      group_moved(*stop);
      passed_over = follow_loader(*stop, false) || follow_frames(*stop, false);
    }
    bool for_client = stop->node == id && stop->kind == ReplayStop::Kind::watch && client_watches_.size();
    for (const auto& owner : stop->owners) for_client |= stop->node == id && owner == client(id);
    bool for_user = stop->kind == ReplayStop::Kind::watch && !for_client;
    for (const auto& owner : stop->owners) for_user |= owner.kind == BreakpointOwner::Kind::stop_point;
    if (passed_over || (for_user && !for_client && refused(*stop))) {
      if (stepping) {
        state(id).stopped = *stepping;
        state(id).link->moved(*stepping);
      }
      stop = stepping ? step_range(id, *stepping, *action) : session_->run();
      continue;
    }
    if (for_user) pending_stop_ = *stop;
    if (for_client || for_user) break;
    stop = session_->run();
  }
  while (stop && stop->kind == ReplayStop::Kind::node_ended && stop->node != id) stop = session_->run();
  report(id, stop, stepping);
  return {};
}

// Whether the conditions of all breakpoints that were hit are known not to hold. Asked while gdb waits for the node, so
// only of conditions that need no gdb; the others are judged when gdb has ended its step.
bool Debugger::refused(const ReplayStop& stop) {
  if (stop.kind != ReplayStop::Kind::breakpoint) return false;
  group_moved(stop);
  for (const auto& owner : stop.owners) {
    const StopPoint* point = points_.find({owner.id});
    if (owner.kind != BreakpointOwner::Kind::stop_point || !point || !point->enabled) continue;
    if (point->condition.empty()) return false;
    auto value = read_quickly(stop.node, point->condition);
    if (!value || !*value) return false;
    if (std::any_of((*value)->bytes.begin(), (*value)->bytes.end(), [](std::byte b) { return b != std::byte{0}; })) return false;
  }
  return true;
}

// Runs a function that gdb calls: alone, in native mode. Stop points do not stop it, but watches learn what it writes.
Result<ReplayStop> Debugger::run_call(NodeId id, ThreadId thread) {
  const auto deadline = std::chrono::steady_clock::now() + call_timeout_;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    auto stop = session_->run_detour(id, thread, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (!stop) return stop;
    if (stop->kind == ReplayStop::Kind::watch) {
      ReplayNode& node = *session_->find(id);
      for (auto& [number, chains] : state(id).watches)
        for (auto& watched : chains) (void)watched.chain->update(stop->hits, watched.seen_from(node), thread, node.watches());
      continue;
    }
    const bool others = stop->kind == ReplayStop::Kind::breakpoint && std::find(stop->owners.begin(), stop->owners.end(), client(id)) == stop->owners.end();
    if (!others) return stop;
  }
}

// Steps while the thread's pc stays in the range (once, for a plain step).
Result<ReplayStop> Debugger::step_range(NodeId id, ThreadId thread, const ThreadAction& action) {
  for (;;) {
    auto stop = session_->step(id, thread);
    if (!stop || stop->kind != ReplayStop::Kind::step || action.kind == ThreadAction::Kind::step) return stop;
    FRIDAY_TRY(node, session_->readable(id));
    FRIDAY_TRY(pc, node->program_counter(thread));
    if (pc < action.low.value || pc >= action.high.value || node->breakpoints().contains(Addr{pc})) return stop;
  }
}

void Debugger::report(NodeId id, const Result<ReplayStop>& stop, std::optional<ThreadId> wanted) {
  NodeContext& s = state(id);
  if (!s.link) return;
  StopReport out;
  epoch_++;
  if (!stop) {
    out.kind = StopReport::Kind::signal;
    out.signal = SIGABRT;
    out.thread = s.stopped;
    s.link->endpoint().report(out);
    return;
  }
  const ReplayNode* node = session_->find(id);
  last_client_stop_ = *stop;
  here_ = stop->node;
  if (stop->kind == ReplayStop::Kind::breakpoint || stop->kind == ReplayStop::Kind::watch || stop->kind == ReplayStop::Kind::step) seen_.insert(stop->node);
  for (auto& [other, each] : states_)
    if (each.link && other != id) each.link->moved(session_->find(other)->current());
  s.stopped = stop->node == id ? stop->thread : wanted.value_or(s.stopped);
  out.thread = s.stopped;
  if (node->state() == NodeState::ended && node->outcome().how == NodeOutcome::How::exited) {
    // The process stands at its last call: gdb may go on looking at it, and is told that nothing follows.
    out.kind = StopReport::Kind::history_end;
  } else if (stop->node != id) {
    out.kind = StopReport::Kind::interrupted;
  } else {
    switch (stop->kind) {
      case ReplayStop::Kind::breakpoint:
        // gdb passes over a breakpoint that it knows nothing of, and would go on with its step.
        out.kind = std::find(stop->owners.begin(), stop->owners.end(), client(id)) == stop->owners.end() ? StopReport::Kind::interrupted
                                                                                                         : StopReport::Kind::breakpoint;
        break;
      case ReplayStop::Kind::watch:
        out.kind = StopReport::Kind::write_watch;
        out.address = stop->hits.empty() ? Addr{} : stop->hits.front().low;
        break;
      case ReplayStop::Kind::step: out.kind = StopReport::Kind::step; break;
      case ReplayStop::Kind::signal: out.kind = StopReport::Kind::signal, out.signal = stop->signal; break;
      case ReplayStop::Kind::node_ended: case ReplayStop::Kind::ended: out.kind = StopReport::Kind::history_end; break;
      default: out.kind = StopReport::Kind::interrupted; break;
    }
  }
  s.link->endpoint().report(out);
}

Result<void> Debugger::set_stop_point(NodeId id, const StopPointRequest& request) {
  FRIDAY_TRY(node, session_->readable(id));
  switch (request.kind) {
    case StopPointRequest::Kind::software: case StopPointRequest::Kind::hardware:
      return node->breakpoints().insert(request.address, client(id));
    case StopPointRequest::Kind::write_watch: {
      StopPointId watch{next_client_watch_++};
      FRIDAY_TRY_VOID(node->watches().arm({watch, 0, request.address, request.length, false}));
      client_watches_[{id, {request.address.value, request.length}}] = watch;
      return {};
    }
    default: return fail(ErrorCode::unsupported, "read watchpoints are not there yet");
  }
}

Result<void> Debugger::clear_stop_point(NodeId id, const StopPointRequest& request) {
  if (closing_) return {};
  FRIDAY_TRY(node, session_->readable(id));
  if (request.kind == StopPointRequest::Kind::software || request.kind == StopPointRequest::Kind::hardware)
    return node->breakpoints().remove(request.address, client(id));
  auto it = client_watches_.find({id, {request.address.value, request.length}});
  if (it == client_watches_.end()) return {};
  node->watches().disarm(it->second);
  client_watches_.erase(it);
  return {};
}

Result<std::string> Debugger::monitor(NodeId id, std::string_view command) {
  if (command == "where") {
    LogicalTime t = session_->time(id);
    return fmt::format("node {}, event {}, logical time {}.{}\n", id, session_->mark(id).event.value, t.l, t.c);
  }
  return fail(ErrorCode::usage, "monitor knows: where");
}

Result<void> Debugger::kill(NodeId id) {
  return fail(ErrorCode::unsupported, "node {} is replayed: killing it would end the replay of the group; use quit", id);
}

}  // namespace friday
