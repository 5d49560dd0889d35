// Carries out the requests that gdbs make of the group through their endpoints. A request to resume returns only after
// the stop. That blocks nobody: gdb waits in its own process, and the reactor has nothing else to serve.
#include <algorithm>
#include <chrono>
#include <csignal>

#include "core/debug/client_wait.h"
#include "core/debug/runner.h"

namespace friday {

namespace {
using Request = StopPointRequest::Kind;

StopReport::Kind report_of(Request kind) {
  return kind == Request::read_watch     ? StopReport::Kind::read_watch
         : kind == Request::access_watch ? StopReport::Kind::access_watch
                                         : StopReport::Kind::write_watch;
}

WatchAccess access_of(Request kind) {
  return kind == Request::read_watch     ? WatchAccess::read
         : kind == Request::access_watch ? WatchAccess::any
                                         : WatchAccess::write;
}
}  // namespace

Result<void> Runner::resume(Client& client, const ResumeRequest& request) {
  FRIDAY_TRY(node, session_.readable(client.node()));
  const bool back = request.direction != ResumeRequest::Direction::forward;
  if (node->state() == NodeState::ended && !back) {
    StopReport nothing{.kind = StopReport::Kind::history_end, .thread = focus_.selected_thread(client.node())};
    if (!request.moved.empty()) {
      nothing.kind = StopReport::Kind::signal, nothing.signal = SIGABRT;  // a signal makes gdb give up the call
      client.endpoint().say(fmt::format("node {} has ended: its functions cannot be called any more\n", client.node()));
    }
    client.endpoint().report(nothing);
    return {};
  }
  FRIDAY_TRY_VOID(client.view().commit());
  alterations_.note_users_stores();
  std::optional<Running> running;
  if (client.is_users()) running.emplace(gdbs_, &client);
  std::optional<ClientWait> wait;  // the user may interrupt the run in that gdb, or end it
  if (client.is_users()) wait.emplace(client.endpoint().client_socket(), [this] { session_.interrupt(); });
  std::optional<ThreadId> wanted;
  const bool called =
      std::ranges::any_of(node->threads_by_tid(), [](const auto& each) { return !!each.second.detour; });
  auto stop = back ? run_back_for(client, request) : run_for(client, request, wanted);
  if (!stop && back) {
    client.endpoint().say(stop.error().message + "\n");
    stop = Stop{.kind = Stop::Kind::started, .node = client.node(), .thread = focus_.selected_thread(client.node())};
  }
  if (wait && wait->ended_it()) session_.clear_interrupt();
  report(client, stop, wanted, called);
  return {};
}

// Goes back for a client: over one instruction, or to the last hit of its breakpoints and watches. A watch stops before
// the store then. The kind is `started` if there is nothing to go back to.
Result<Stop> Runner::run_back_for(Client& client, const ResumeRequest& request) {
  const NodeId id = client.node();
  ReplayNode* node = session_.find(id);
  const ThreadId thread = request.thread.value_or(focus_.selected_thread(id));
  Stop begin{.kind = Stop::Kind::started, .node = id, .thread = thread};
  gdbs_.set_served(id);
  struct Served {
    GdbPool& gdbs;
    ~Served() { gdbs.set_served(std::nullopt); }
  } served{gdbs_};
  if (request.direction == ResumeRequest::Direction::reverse_step) {
    FRIDAY_TRY(stepped, past_->step(id, thread));
    return stepped ? static_cast<Stop>(*stepped) : begin;
  }
  const auto places = node->breakpoints().places_of(client.breakpoint_owner());
  const auto watches = client.watches;
  const PastRuns::Wanted wanted{[&](const Stop& stop) { return hits_client(client, stop); },
                                [&](ReplayNode& started) {
                                  if (started.id() != id) return;
                                  (void)started.make_pad_areas();
                                  for (Addr place : places)
                                    (void)started.breakpoints().insert(place, client.breakpoint_owner());
                                  for (const auto& [range, watch] : watches)
                                    (void)started.watches().arm({watch, 0, Addr{std::get<1>(range)}, std::get<2>(range),
                                                                 false, access_of(std::get<0>(range))});
                                  client.watches = watches;
                                }};
  FRIDAY_TRY(found, past_->run_to_wanted(wanted));
  if (!found) return begin;
  if (found->kind != Stop::Kind::watch) return static_cast<Stop>(*found);
  FRIDAY_TRY_VOID(past_->step(found->node, found->thread));
  wanted.arm(*session_.find(id));
  return static_cast<Stop>(*found);
}

// Runs the group for a client. Sets `wanted` to the thread that is stepped, or in which gdb calls a function.
Result<Stop> Runner::run_for(Client& client, const ResumeRequest& request, std::optional<ThreadId>& wanted) {
  const NodeId id = client.node();
  ReplayNode& node = *session_.find(id);
  for (auto& [tid, thread] : node.threads_by_tid())
    if (thread.detour) {
      wanted = ThreadId{thread.number};
      auto stop = calls_.run_for_gdb(node, *wanted, [&](const Stop& stop) { return hits_client(client, stop); });
      focus_.begin_epoch();
      return stop;
    }
  FRIDAY_TRY_VOID(events_.prepare());
  const auto action =
      std::ranges::find_if(request.actions, [](const ThreadAction& a) { return a.kind != ThreadAction::Kind::go; });
  if (action != request.actions.end()) wanted = action->thread ? *action->thread : focus_.selected_thread(id);
  auto go_on = [&] { return wanted ? step_range(id, *wanted, *action) : session_.run(); };
  auto stop = go_on();
  // As in a run of the user, continue after breakpoints of Friday's own and hits whose condition is false. Also
  // continue after breakpoints that other clients have set.
  while (stop &&
         (stop->kind == Stop::Kind::breakpoint || stop->kind == Stop::Kind::watch || stop->kind == Stop::Kind::event)) {
    if (stop->kind == Stop::Kind::event) {
      note_stop(*stop);
      pending_event_ = events_.judge(*stop, false);
      if (pending_event_) break;
      FRIDAY_TRY_VOID(events_.prepare());
      stop = go_on();
      continue;
    }
    const auto of_kind = [&](BreakpointOwner::Kind kind) {
      return std::ranges::any_of(stop->owners, [&](const BreakpointOwner& o) { return o.kind == kind; });
    };
    bool passed_over = false;
    if (of_kind(BreakpointOwner::Kind::stop_point) || of_kind(BreakpointOwner::Kind::internal)) {
      note_stop(*stop);
      passed_over = stop_points_.pass_over_own(*stop, false);
    }
    const bool for_client = hits_client(client, *stop);
    const bool for_user =
        of_kind(BreakpointOwner::Kind::stop_point) || (stop->kind == Stop::Kind::watch && !for_client);
    if (passed_over || (for_user && !for_client && stop_points_.is_refused(*stop))) {
      if (wanted) {
        focus_.select_thread(id, *wanted);
        gdbs_.node_moved(id, *wanted);
      }
      stop = go_on();
      continue;
    }
    if (for_user) pending_stop_ = *stop;
    if (for_client || for_user) break;
    stop = session_.run();
  }
  // The end of another node stops the group, and thus ends this step or run. In a run that a gdb of the user requested,
  // keep it for the next run of Friday.
  if (stop && stop->kind == Stop::Kind::exit && stop->node != id && client.is_users()) pending_ends_.push_back(*stop);
  return stop;
}

// Whether the stop is at a breakpoint or watch of the client.
bool Runner::hits_client(const Client& client, const Stop& stop) {
  if (stop.node != client.node()) return false;
  if (std::ranges::find(stop.owners, client.breakpoint_owner()) != stop.owners.end()) return true;
  return std::ranges::any_of(stop.hits, [&](const WatchHit& hit) {
    return std::ranges::any_of(client.watches, [&](const auto& watch) { return watch.second == hit.id; });
  });
}

// Steps once; for an action of the kind step_range, repeats that while the thread's pc is in the range.
Result<Stop> Runner::step_range(NodeId id, ThreadId thread, const ThreadAction& action) {
  for (;;) {
    auto stop = session_.step(id, thread);
    if (!stop || stop->kind != Stop::Kind::step || action.kind == ThreadAction::Kind::step) return stop;
    FRIDAY_TRY(node, session_.readable(id));
    FRIDAY_TRY(pc, node->program_counter(thread));
    if (pc < action.low.value || pc >= action.high.value || node->breakpoints().contains(Addr{pc})) return stop;
  }
}

void Runner::report(Client& client, const Result<Stop>& stop, std::optional<ThreadId> wanted, bool called) {
  const NodeId id = client.node();
  StopReport out;
  if (!stop) {
    focus_.begin_epoch();
    out.kind = StopReport::Kind::signal;
    out.signal = SIGABRT;
    out.thread = focus_.selected_thread(id);
    client.endpoint().report(out);
    return;
  }
  const ReplayNode* node = session_.find(id);
  if (!client.is_users()) last_client_stop_ = *stop;
  if (called) focus_.note_call(id);
  else focus_.note_stop(*stop);
  focus_.select_thread(id, stop->node == id ? stop->thread : wanted.value_or(focus_.selected_thread(id)));
  gdbs_.group_moved(id, focus_.selected_thread(id), &client);
  out.thread = focus_.selected_thread(id);
  if (node->state() == NodeState::ended && node->outcome().how == NodeOutcome::How::exited) {
    // The process still exists, stopped at its last call. Report the end of the history, so that gdb can inspect it.
    out.kind = StopReport::Kind::history_end;
  } else if (stop->node != id) {
    out.kind = StopReport::Kind::interrupted;
  } else {
    switch (stop->kind) {
      case Stop::Kind::breakpoint:
        // gdb ignores a stop at a breakpoint that it has not set, and would continue its step.
        out.kind = hits_client(client, *stop) ? StopReport::Kind::breakpoint : StopReport::Kind::interrupted;
        break;
      case Stop::Kind::watch:
        out.kind = StopReport::Kind::interrupted;
        if (hits_client(client, *stop)) tell_watch(client, *stop, out);
        break;
      case Stop::Kind::step: out.kind = StopReport::Kind::step; break;
      case Stop::Kind::started: out.kind = StopReport::Kind::history_begin; break;
      case Stop::Kind::signal: out.kind = StopReport::Kind::signal, out.signal = stop->signal; break;
      case Stop::Kind::exit:
      case Stop::Kind::end: out.kind = StopReport::Kind::history_end; break;
      default: out.kind = StopReport::Kind::interrupted; break;
    }
  }
  if (client.is_users() && stop->kind == Stop::Kind::exit && stop->node != id)
    client.endpoint().say(fmt::format("node {} ({}) has ended\n", stop->node, session_.find(stop->node)->info().name));
  if (client.is_users() && (pending_stop_ || pending_event_))
    client.endpoint().say("stopped at a stop point of Friday; its handler runs when Friday continues\n");
  client.endpoint().report(out);
}

// Fills the report with the first watch of the client that was hit.
void Runner::tell_watch(const Client& client, const Stop& stop, StopReport& report) {
  for (const WatchHit& hit : stop.hits)
    for (const auto& [range, id] : client.watches) {
      if (id != hit.id) continue;
      report.kind = report_of(std::get<Request>(range));
      report.address = hit.low;
      return;
    }
}

Result<void> Runner::set_stop_point(Client& client, const StopPointRequest& request) {
  FRIDAY_TRY(node, session_.readable(client.node()));
  switch (request.kind) {
    case Request::software:
    case Request::hardware: return node->breakpoints().insert(request.address, client.breakpoint_owner());
    case Request::write_watch:
    case Request::read_watch:
    case Request::access_watch: {
      const auto [place, fresh] = client.watches.try_emplace({request.kind, request.address.value, request.length},
                                                             StopPointId{next_client_watch_});
      if (fresh) next_client_watch_++;
      auto armed =
          node->watches().arm({place->second, 0, request.address, request.length, false, access_of(request.kind)});
      if (!armed) client.watches.erase(place);
      return armed;
    }
  }
  return fail(ErrorCode::usage, "gdb asked for a stop point of an unknown kind");
}

Result<void> Runner::clear_stop_point(Client& client, const StopPointRequest& request) {
  if (gdbs_.is_closing()) return {};
  FRIDAY_TRY(node, session_.readable(client.node()));
  if (request.kind == StopPointRequest::Kind::software || request.kind == StopPointRequest::Kind::hardware)
    return node->breakpoints().remove(request.address, client.breakpoint_owner());
  auto it = client.watches.find({request.kind, request.address.value, request.length});
  if (it == client.watches.end()) return {};
  node->watches().disarm(it->second);
  client.watches.erase(it);
  return {};
}

Result<std::string> Runner::monitor(Client& client, std::string_view command) {
  const NodeId id = client.node();
  if (command == "where") {
    LogicalTime t = session_.time(id);
    return fmt::format("node {}, event {}, logical time {}.{}\n", id, session_.mark(id).event.value, t.l, t.c);
  }
  return fail(ErrorCode::usage, "\"monitor {}\" is not known; there is only \"monitor where\"", command);
}

}  // namespace friday
