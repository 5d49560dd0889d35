// Runs the group forward and reports why it stopped: resumes it, steps a node, runs to a mark, and implements timers.
// Judges each stop of the replay: whether the user must hear of it, and as what. Stops at stop points are judged by
// GroupStopPoints.
//
// Requests of gdbs to run the group also arrive here (ClientOwner, in client_runs.cc). Such a request returns after the
// stop, while gdb waits in its own process. If something happens in such a run that the user must hear of, it is kept
// and reported by the user's next run.
//
// Owned by the Debugger. It uses all other parts, and none of them uses it; the gdb pool passes it the requests of
// gdbs. Use on the session's thread only. Each run returns when the group has stopped.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "core/debug/client.h"
#include "core/debug/debug_stop.h"
#include "core/debug/group_stop_points.h"

namespace friday {

class Runner final : public ClientOwner {
 public:
  Runner(ReplaySession& session, Focus& focus, GdbPool& gdbs, Calls& calls, GroupStopPoints& stop_points)
      : session_(session), focus_(focus), gdbs_(gdbs), calls_(calls), stop_points_(stop_points) {}

  // Runs to the next stop that the user must hear of. If `timeout` is given, in seconds, stops after that time with the
  // kind `pause`.
  Result<DebugStop> resume(std::optional<double> timeout);
  // Makes the node's gdb step. `command` is step, next, stepi, nexti, finish or until LOCATION. Other nodes run in the
  // recorded order meanwhile. Fails with usage for any other command.
  Result<DebugStop> step(NodeId node, const std::string& command);
  // Runs until the node of `target` waits before the target's event (`reached`), or until a stop that comes before;
  // without a target, to the end. Hits of stop points are ignored and not counted.
  Result<DebugStop> run_to(std::optional<Mark> target, std::optional<double> timeout);

  // Adds a timer with this period of logical time, and returns its id. The period must be greater than 0.
  Result<uint32_t> add_timer(double seconds);
  // Call before a stop point is removed; it need not be a timer.
  void forget_timer(uint32_t id) { timers_.erase(id); }

  // Call when the process of a node exists: the target of run_to() may be in that node.
  void node_started() { park_for_target(); }
  // Call when all nodes are rebuilt. Discards everything that is left of earlier runs.
  void restart();

 private:
  struct Timer {
    int64_t period = 0, next = 0;  // nanoseconds of logical time; `next` is 0 before the first run
  };
  // The run_to() that is being executed.
  struct RunTo {
    std::optional<Mark> target;
  };

  void note_stop(const Stop& stop);
  Hits hits() const { return run_to_ ? Hits::passed_over : Hits::judged; }
  std::optional<DebugStop> judge(Stop stop);
  std::optional<DebugStop> judge_timer(Stop stop);
  std::optional<DebugStop> judge_target(Stop stop);
  std::optional<DebugStop> judge_pending();
  std::optional<DebugStop> judge_pending_end();
  DebugStop lost_part(Stop stop);
  Result<DebugStop> run_group(std::optional<double> timeout);
  bool is_enabled(uint32_t timer) const;
  void set_next_timer();
  void park_for_target();
  void forget_target();

  // ClientOwner, in client_runs.cc
  Result<void> resume(Client& client, const ResumeRequest& request) override;
  void interrupt(Client&) override { session_.interrupt(); }
  Result<void> set_stop_point(Client& client, const StopPointRequest& request) override;
  Result<void> clear_stop_point(Client& client, const StopPointRequest& request) override;
  Result<std::string> monitor(Client& client, std::string_view command) override;
  Result<Stop> run_for(Client& client, const ResumeRequest& request, std::optional<ThreadId>& wanted);
  Result<Stop> step_range(NodeId node, ThreadId thread, const ThreadAction& action);
  static bool hits_client(const Client& client, const Stop& stop);
  static void tell_watch(const Client& client, const Stop& stop, StopReport& report);
  void report(Client& client, const Result<Stop>& stop, std::optional<ThreadId> wanted, bool called);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Calls& calls_;
  GroupStopPoints& stop_points_;

  std::map<uint32_t, Timer> timers_;
  std::optional<NodeId> timer_node_;  // the node that will wait before an event for the next timer
  std::optional<RunTo> run_to_;
  std::optional<Mark> parked_;  // the event before which its node will wait, for run_to_
  // Stops in runs that gdbs requested and that the user must still hear of:
  std::optional<Stop> pending_stop_;       // a stop at a stop point of the user
  std::deque<Stop> pending_ends_;          // ends of other nodes, in runs that gdbs of the user requested
  std::optional<Stop> last_client_stop_;   // the last stop of a run that one of Friday's own gdbs requested
  uint32_t next_client_watch_ = 1u << 30;  // id of the next watch set by a gdb, beyond those of stop points
};

}  // namespace friday
