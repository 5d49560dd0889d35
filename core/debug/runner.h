// Runs the group forward and says why it stopped: resumes it, steps a node, runs to a mark, and keeps the user's
// timers. A stop of the replay is judged here: those of stop points by the GroupStopPoints, all others by itself.
//
// A gdb that lets its node go on comes here too, as a client's request (ClientOwner, in client_runs.cc): such a run
// lasts until it has a stop, while gdb waits in its own process. What happens in it that the user must hear of is kept
// until the user's next run.
//
// The Debugger owns it. It uses all other parts and none uses it; the gdb pool hands it the requests of gdbs. Used on
// the session's thread; each run returns when the group stands.
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

  // Runs to the next stop that the user is to hear of; after `timeout` seconds, to a stop of the kind `pause`.
  Result<DebugStop> resume(std::optional<double> timeout);
  // Has the node's gdb step: step, next, stepi, nexti, finish, until LOCATION. Other nodes follow in the recorded
  // order.
  Result<DebugStop> step(NodeId node, const std::string& command);
  // Runs forward until a node stands before an event (`reached`), or to what comes before; without target to the end.
  // Stop points are passed over: they neither stop the group nor count.
  Result<DebugStop> run_to(std::optional<Mark> target, std::optional<double> timeout);

  // A stop point that is due each time so many seconds of logical time have passed; its number.
  Result<uint32_t> add_timer(double seconds);
  // Before the stop point of that number is removed, whatever it is.
  void forget_timer(uint32_t id) { timers_.erase(id); }

  // A process exists now: the node that a run goes to may be this one.
  void node_started() { park_for_target(); }
  // All nodes are built anew: nothing of an earlier run is left.
  void restart();

 private:
  struct Timer {
    int64_t period = 0, next = 0;  // ns of logical time; next 0: not known yet
  };
  // The run under way that passes over stop points.
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

  // ClientOwner (client_runs.cc)
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
  std::optional<NodeId> timer_node_;  // parked for the next timer
  std::optional<RunTo> run_to_;
  std::optional<Mark> parked_;  // whose node is parked for the target of a run
  // What runs of gdbs came to, and the user has not heard of:
  std::optional<Stop> pending_stop_;       // of a stop point of the user's
  std::deque<Stop> pending_ends_;          // of other nodes, in runs of the user's gdbs
  std::optional<Stop> last_client_stop_;   // of the last run of one of Friday's own gdbs
  uint32_t next_client_watch_ = 1u << 30;  // number of a watch that a gdb sets
};

}  // namespace friday
