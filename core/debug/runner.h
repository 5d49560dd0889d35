// Runs the group forward and reports why it stopped: resumes it, steps a node, runs to a mark. Judges each stop of the
// replay: whether the user must hear of it, and as what. Stops at breakpoints and watchpoints are judged by
// GroupStopPoints, those before events (timers, catchpoints) by EventStops.
//
// Requests of gdbs to run the group also arrive here (ClientOwner, in client_runs.cc). Such a request returns after the
// stop, while gdb waits in its own process. If something happens in such a run that the user must hear of, it is kept
// and reported by the user's next run.
//
// Owned by the Debugger. It uses all other parts, and none of them uses it; the gdb pool passes it the requests of
// gdbs. Use on the session's thread only. Each run returns when the group has stopped.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "core/debug/client.h"
#include "core/debug/debug_stop.h"
#include "core/debug/event_stops.h"
#include "core/debug/group_stop_points.h"
#include "core/history/history.h"

namespace friday {

// Moves the group into the past at the request of a gdb. Backward does.
class PastRuns {
 public:
  virtual ~PastRuns() = default;
  // What a run goes back to besides stop points of the user, which it passes over then.
  struct Wanted {
    std::function<bool(const Stop&)> is_hit;
    std::function<void(ReplayNode&)> arm;  // called when the process of a node exists
  };
  virtual Result<std::optional<DebugStop>> step(NodeId node, ThreadId thread) = 0;
  virtual Result<std::optional<DebugStop>> run_to_wanted(const Wanted& wanted) = 0;
};

class Runner final : public ClientOwner {
 public:
  Runner(ReplaySession& session, Focus& focus, GdbPool& gdbs, Alterations& alterations, Calls& calls,
         GroupStopPoints& stop_points, History& history)
      : session_(session),
        focus_(focus),
        gdbs_(gdbs),
        alterations_(alterations),
        calls_(calls),
        stop_points_(stop_points),
        history_(history) {}

  // Runs to the next stop that the user must hear of. If `timeout` is given, in seconds, stops after that time with the
  // kind `pause`; if `last`, stops before that event, with the kind `reached`.
  Result<DebugStop> resume(std::optional<double> timeout, std::optional<Mark> last = {});
  // Makes the node's gdb step. `command` is step, next, stepi, nexti, finish or until LOCATION. Other nodes run in the
  // recorded order meanwhile. Fails with usage for any other command.
  Result<DebugStop> step(NodeId node, const std::string& command);
  // Runs until the node of `target` waits before the target's event (`reached`), or until a stop that comes before;
  // without a target, to the end. Hits of stop points are ignored and not counted.
  Result<DebugStop> run_to(std::optional<Mark> target, std::optional<double> timeout);

  // A part of a search through the past, in which all stop points are judged (GroupStopPoints::Search) or passed over.
  // Runs until the node of `target` waits before its event, or `ends` returns true at a stop of the replay that nobody
  // has judged yet: then `reached`; or to the next hit, or another stop.
  // With `hits_first`, hits at that event come before `reached`.
  using Ends = std::function<bool(Stop&)>;
  Result<DebugStop> search(std::optional<Mark> target, const Ends& ends, Hits hits, bool hits_first = false);
  // Makes no node wait before an event. Call before single steps that no run of the user makes.
  Result<void> disarm_events();
  // As ReplaySession::step(), while no node waits before an event, also none that starts on the way.
  Result<Stop> step_unstopped(NodeId id, ThreadId thread, const std::function<bool(const Stop&)>& passes);
  // Call when the group was brought to a place without a run: the node of `mark` moved last, with this thread. The kind
  // is that of a stop there: `event` if it waits before its next event, `watch` in a call that has changed watched
  // memory, or `step`.
  void stand(const Mark& mark, ThreadId thread, Stop::Kind kind);
  // The first place of the program that has what a call has written in which this thread stands: the instruction behind
  // the call. None if it is not known when the thread comes there (events_behind_call()).
  static std::optional<Mark> mark_behind_call(ReplayNode& node, ThreadId thread);
  // The stop with its mark, if the group stands at it and that is known.
  DebugStop marked(DebugStop stop);
  // The kind of the last stop of the replay.
  Stop::Kind last_kind() const { return last_kind_; }

  EventStops& event_stops() { return events_; }
  // Must be called before a gdb requests anything.
  void set_past(PastRuns& past) { past_ = &past; }

  // Call when the process of a node exists.
  void node_started(ReplayNode& node) { events_.node_started(node); }
  // Call when all nodes are rebuilt. Discards everything that is left of earlier runs.
  void restart();

 private:
  // While it exists, the group runs: the gdbs of the user are told, except the one that has asked for it.
  class Running {
   public:
    explicit Running(GdbPool& gdbs, const Client* mover = nullptr) : gdbs_(gdbs), mover_(mover) {
      gdbs_.tell_users(kRuns, mover_);
    }
    ~Running() { gdbs_.tell_users(kStands, mover_); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    GdbPool& gdbs_;
    const Client* mover_;
  };

  void note_stop(const Stop& stop);
  Hits hits() const { return events_.is_passing() ? Hits::passed_over : Hits::judged; }
  std::optional<DebugStop> judge(Stop stop);
  DebugStop judge_end(Stop stop);
  std::optional<DebugStop> judge_pending();
  std::optional<DebugStop> judge_pending_end();
  DebugStop lost_part(Stop stop);
  Result<void> end_users_commands();
  std::optional<Mark> known_mark(const DebugStop& stop);
  std::optional<Mark> mark_of_change(const DebugStop& stop, const Mark& here);
  Result<DebugStop> run_group(std::optional<double> timeout, const Ends& ends = {});

  // ClientOwner, in client_runs.cc
  Result<void> resume(Client& client, const ResumeRequest& request) override;
  void interrupt(Client&) override { session_.interrupt(); }
  Result<void> set_stop_point(Client& client, const StopPointRequest& request) override;
  Result<void> clear_stop_point(Client& client, const StopPointRequest& request) override;
  Result<std::string> monitor(Client& client, std::string_view command) override;
  Result<Stop> run_back_for(Client& client, const ResumeRequest& request);
  Result<Stop> run_for(Client& client, const ResumeRequest& request, std::optional<ThreadId>& wanted);
  Result<Stop> step_range(NodeId node, ThreadId thread, const ThreadAction& action);
  static bool hits_client(const Client& client, const Stop& stop);
  static void tell_watch(const Client& client, const Stop& stop, StopReport& report);
  void report(Client& client, const Result<Stop>& stop, std::optional<ThreadId> wanted, bool called);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Alterations& alterations_;
  Calls& calls_;
  GroupStopPoints& stop_points_;
  History& history_;

  EventStops events_{session_, focus_, stop_points_};
  // Stops in runs that gdbs requested and that the user must still hear of:
  std::optional<Stop> pending_stop_;        // a stop at a breakpoint or watchpoint of the user
  std::optional<DebugStop> pending_event_;  // a stop before an event, which has been judged
  std::deque<Stop> pending_ends_;           // ends of other nodes, in runs that gdbs of the user requested
  PastRuns* past_ = nullptr;
  Stop::Kind last_kind_ = Stop::Kind::started;
  std::optional<Stop> last_client_stop_;   // the last stop of a run that one of Friday's own gdbs requested
  uint32_t next_client_watch_ = 1u << 30;  // id of the next watch set by a gdb, beyond those of stop points
};

}  // namespace friday
