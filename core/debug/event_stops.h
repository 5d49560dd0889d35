// Makes nodes wait before events of the recording: for timers, for catchpoints (`catch syscall`, `catch signal`, ...),
// and for the target of a run to a place. Every node can wait before one event at a time, so all of them stand here:
// before each run the nodes are told the next event that concerns them, and a stop there is judged here.
//
// Owned by the Runner. Use on the session's thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/debug/debug_stop.h"
#include "core/debug/focus.h"
#include "core/debug/group_stop_points.h"
#include "core/trace/event_filter.h"

namespace friday {

class EventStops {
 public:
  EventStops(ReplaySession& session, Focus& focus, GroupStopPoints& stop_points)
      : session_(session), focus_(focus), stop_points_(stop_points) {}

  // Adds a timer with this period of logical time, and returns its id. The period must be greater than 0.
  Result<uint32_t> add_timer(double seconds);
  // Adds a catchpoint on these nodes for what `text` says (EventFilter::parse()), and returns its id. A node stops
  // before the event, in the call.
  Result<uint32_t> add_catch(const std::vector<NodeId>& nodes, const std::string& text, const std::string& condition);
  // Call before a stop point is removed; it need not be one of these.
  void forget(uint32_t id);

  // While there is a target, its node waits before that event.
  struct Target {
    std::optional<Mark> mark;  // none: the end of the recording
    bool passing = true;       // timers and catchpoints are passed over, and so are all other stop points
    bool hits_first = false;   // those at this event are hits before it is reached
  };
  void set_target(Target target) { target_ = target; }
  void clear_target() {
    if (is_passing()) forget_catches();
    target_.reset();
  }
  // While it exists, there is this target.
  class Aiming {
   public:
    Aiming(EventStops& stops, Target target) : stops_(stops) { stops_.set_target(target); }
    ~Aiming() { stops_.clear_target(); }
    Aiming(const Aiming&) = delete;
    Aiming& operator=(const Aiming&) = delete;

   private:
    EventStops& stops_;
  };
  bool is_passing() const { return target_ && target_->passing; }

  // Call before the group runs. Fails if a trace is damaged.
  Result<void> prepare();
  // Call when the process of a node exists, in the middle of a run.
  void node_started(ReplayNode& node);
  // Call when all nodes are rebuilt.
  void restart();

  // Call when a node was brought to wait before an event of which the user has heard: no catchpoint and no timer stops
  // it there again.
  void stand_before(const Mark& mark);
  // What it means that a node waits before an event; none if the group must continue. `may_ask`: gdb may be asked about
  // conditions; a condition that then cannot be evaluated counts as true.
  std::optional<DebugStop> judge(Stop stop, bool may_ask);
  // The catchpoints that mean the death of this node by a signal.
  std::vector<uint32_t> catching_death(NodeId node, int signal) const;

 private:
  struct Timer {
    int64_t period = 0, next = 0;  // nanoseconds of logical time; `next` is 0 before the first run
  };
  struct NodeEvents {
    uint64_t armed = ~uint64_t{0};       // the event before which the node waits
    std::optional<uint64_t> told;        // the event before which it stands and of which the user has heard
    std::optional<uint64_t> next_catch;  // the next event that a catchpoint wants; ~0: there is none
  };

  bool is_enabled(uint32_t id) const;
  bool covers(uint32_t id, NodeId node) const;
  void forget_catches();
  std::optional<Mark> next_timer();
  Result<uint64_t> next_catch(ReplayNode& node);
  std::vector<uint32_t> caught_at(const TraceReader& trace, NodeId node, uint64_t offset, const EventView& event) const;
  Result<uint64_t> next_event(ReplayNode& node, const std::optional<Mark>& timer);
  void arm(ReplayNode& node, uint64_t event);
  void forget_armed(NodeId id);
  std::optional<DebugStop> judge_target(Stop stop);
  std::optional<DebugStop> judge_timers(const Stop& stop, uint64_t event);
  std::optional<DebugStop> judge_catches(Stop stop, uint64_t event, bool may_ask);

  ReplaySession& session_;
  Focus& focus_;
  GroupStopPoints& stop_points_;
  std::map<uint32_t, Timer> timers_;
  std::map<uint32_t, EventFilter> catches_;
  std::vector<uint32_t> enabled_;  // the catchpoints that NodeEvents::next_catch is about
  std::map<NodeId, NodeEvents> nodes_;
  size_t armed_nodes_ = 0;  // those that wait before an event
  std::optional<Target> target_;
  std::optional<Mark> timer_;  // the event before which a node waits for the next timer
};

}  // namespace friday
