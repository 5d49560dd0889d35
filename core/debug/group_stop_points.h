// The user's breakpoints and watchpoints on all nodes of a group: resolves their locations and expressions, arms them
// in each node, and judges hits. They follow what the nodes do: libraries are loaded and unloaded, functions are
// entered and left (a watch of a local variable lasts as long as its frame), processes are forked.
//
// Owned by the Debugger. It uses Expressions, and through them the gdbs; the Runner uses it to judge stops. As the
// MemoryObserver of Expressions it learns which memory called functions and the user have changed. Use on the session's
// thread only.
//
// Files: stops.cc creates and arms stop points, judging.cc judges hits, frames.cc watches local variables, libraries.cc
// follows the loader.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/debug/debug_stop.h"
#include "core/debug/expressions.h"
#include "core/stop/chain.h"
#include "core/stop/stop_points.h"

namespace friday {

// Whether hits of the user's stop points are judged and counted, or ignored because Runner::run_to() is running.
enum class Hits { judged, passed_over };

class GroupStopPoints final : public MemoryObserver {
 public:
  // With `patch_stores`, stores that cause many false positives are patched (core/stop/patched_stores.h).
  GroupStopPoints(ReplaySession& session, Focus& focus, GdbPool& gdbs, Expressions& expressions, bool patch_stores)
      : session_(session),
        focus_(focus),
        gdbs_(gdbs),
        expressions_(expressions),
        symbols_(expressions.symbols()),
        patch_stores_(patch_stores) {}

  // ---- requests of the user
  // These may ask gdbs, one node's for each program. On nodes where a stop point cannot be armed it is pending. If it
  // cannot be armed anywhere, adding or enabling it fails, unless the option -pending was given. The condition of a
  // breakpoint is refused if it names something that exists at none of its places.
  Result<uint32_t> add_breakpoint(const std::vector<NodeId>& nodes, const std::string& location,
                                  const std::string& condition);
  Result<uint32_t> add_watch(const std::vector<NodeId>& nodes, const std::vector<std::string>& expressions,
                             const std::string& condition);
  // Reserves an id for a timer, which the Runner implements. `period` describes it for people.
  Result<uint32_t> add_timer(const std::string& period);
  // Reserves an id for a catchpoint on these nodes, which the Runner implements (EventStops).
  Result<uint32_t> add_catch(const std::vector<NodeId>& nodes, const std::string& what, const std::string& condition);
  Result<void> remove(uint32_t id);
  Result<void> enable(uint32_t id, bool on);
  Result<void> ignore(uint32_t id, uint64_t count);
  Result<void> set_condition(uint32_t id, const std::string& text);
  const StopPoints& table() const { return points_; }
  Result<void> set_patch_stores(bool on);
  bool patches_stores() const { return patch_stores_; }

  // ---- what nodes do
  // Call when the process of a node exists. Arms the stop points of the node. The process of a forked node is then
  // still a copy of its parent, which is stopped at the fork.
  void node_started(ReplayNode& node);
  // Call before all nodes are rebuilt. Stop points are kept, and are armed as the nodes start.
  void restart();
  // Call before a node becomes what it was at an earlier time. Watches of local variables are kept with the frames in
  // which they are watched now.
  void node_leaves(NodeId node);
  // Call for a node that has stayed as it was when the group went back.
  void node_stands(ReplayNode& node);
  // Call before the group resumes. Resolves stop points again for libraries that were loaded while gdb could not be
  // asked.
  void follow_missed_libraries();

  // ---- judging stops
  // What a stop means to the user; none if the group must continue. May ask gdb to evaluate conditions.
  std::optional<DebugStop> judge_breakpoint(Stop stop, Hits hits);
  std::optional<DebugStop> judge_watch(Stop stop, Hits hits);
  // Of a stop with the stop points that it has reached: the stop with those whose condition holds and which are not
  // ignored, after their hits were counted; none if there is none. If the user interrupts a condition, the stop is of
  // the kind `interrupt`, no hit is counted, and take_undecided() returns the stop as it was.
  std::optional<DebugStop> decide(DebugStop stop);
  // The stop that must be decided before the group goes on, because the user has interrupted that. Returned once.
  std::optional<DebugStop> take_undecided() { return std::exchange(undecided_, std::nullopt); }
  enum class Verdict { none, hit, interrupted };
  // The same on a stop in place, for the caller to act on. Without `may_ask` no gdb is asked; a condition that only gdb
  // can evaluate then counts as true.
  Verdict keep_hits(DebugStop& stop, bool may_ask);
  // Handles the breakpoints that Friday has set for itself, and removes them from stop.owners. Returns true if no other
  // owner is left. Without `may_ask` no gdb is asked, because it waits for the node.
  bool pass_over_own(Stop& stop, bool may_ask);
  // Whether the conditions of all breakpoints that were hit are known to be false. Call after Focus::note_stop(). Asks
  // no gdb, because it may wait for the node; a condition that only gdb can evaluate counts as true.
  bool is_refused(const Stop& stop);
  // An error message, if a stop point was not armed or a condition not evaluated because gdb died, and its replacement
  // died too. The run must then end, or hits would be missed silently. Returned once.
  std::optional<std::string> take_lost_part() { return std::exchange(lost_part_, std::nullopt); }
  bool has_lost_part() const { return lost_part_.has_value(); }

  // While it exists, hits are judged for a search through the past: none is counted, no ignore count applies, and those
  // of the stop points `passed` are no hits.
  class Search {
   public:
    Search(GroupStopPoints& points, std::set<uint32_t> passed) : points_(points) {
      points_.search_ = std::move(passed);
    }
    ~Search() { points_.search_.reset(); }
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

   private:
    GroupStopPoints& points_;
  };
  // Counts a hit of each, at a place that a search has found. No ignore count applies.
  void count_found(const std::vector<uint32_t>& ids);

  // Messages for the user about watches, each returned once.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }

 private:
  // A stack frame, to find out when it ends.
  struct FrameLife {
    ThreadId thread{};
    uint64_t end = 0;      // the stack pointer after the return; the return address is in the 8 bytes below
    uint64_t back = 0;     // the return address
    std::string function;  // empty if unknown
  };
  // One expression of a watchpoint in one node; for a local variable, in one activation of its function.
  struct Watched {
    std::string expression;               // as the user wrote it
    std::optional<FrameLife> frame;       // for a local variable: the watch ends with this frame
    std::unique_ptr<NodeControl> frozen;  // for a local variable: the node with the registers of the frame
    NodeControl& seen_from(ReplayNode& node) const;
    std::unique_ptr<ChainWatch> chain;
    uint32_t type = 0;  // id in the TypeRegistry
    // The frame may be one of a later time, to which a run comes forward again: it is watched from its next hit on.
    bool dormant = false;
  };
  // What is left of a watched local variable when its node is rebuilt.
  struct Kept {
    std::string expression;
    std::shared_ptr<const ExpressionPlan> plan;
    uint32_t type = 0;
    std::optional<FrameLife> frame;
    user_regs_struct registers{};
  };
  // Whether the stop points of a node correspond to its list of libraries.
  enum class Loader {
    followed,  // they do
    changing,  // the loader is changing the list
    missed,    // the list has changed while gdb could not be asked
  };
  struct NodeStops {
    std::map<uint32_t, std::vector<Watched>> watches;  // by id of the stop point
    std::map<uint32_t, std::vector<Kept>> kept;        // by id of the stop point; taken when the node starts
    uint64_t r_debug = 0;                              // address of the loader's r_debug
    Loader loader = Loader::followed;
    bool armed = false;
    uint32_t next_index = 0;  // index for the next WatchRange
  };
  // The evaluation of conditions at one stop.
  struct Judgement {
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::string failure;     // why the first condition that could not be evaluated could not; empty if there is none
    size_t more_failed = 0;  // number of other conditions that could not be evaluated
    std::optional<StopPointId> interrupted_at;  // the stop point whose condition the user has interrupted
    std::string note() const;
  };

  // MemoryObserver
  void memory_hit(ReplayNode& node, ThreadId thread, const Stop& stop) override;
  void memory_changed(ReplayNode& node) override;

  // stops.cc
  Result<void> any_replayed(const std::vector<NodeId>& nodes);
  void disarmed(NodeId node);
  Result<void> check_condition(const StopPoint& point, const std::string& condition);
  Result<StopPoint> make_point(StopKind kind, const std::vector<NodeId>& nodes, const std::string& condition);
  Result<uint32_t> add_armed(StopPoint point);
  Result<void> arm(StopPoint& point, ReplayNode& node);
  Result<void> arm_breakpoint(StopPoint& point, ReplayNode& node);
  Result<void> arm_watch(StopPoint& point, ReplayNode& node);
  Result<void> arm_expression(StopPoint& point, ReplayNode& node, const std::string& expression,
                              const std::string& text);
  void note_fixed(const StopPoint& point, const std::string& shown, const std::string& reason);
  Result<std::shared_ptr<const ExpressionPlan>> watch_plan(const StopPoint& point, ReplayNode& node,
                                                           const std::string& shown, const std::string& text,
                                                           bool may_ask);
  Result<void> watch_expression(StopPoint& point, ReplayNode& node, const std::string& shown, const std::string& text,
                                bool local, bool may_ask);
  Result<void> arm_on_nodes(StopPoint& point);
  bool arm_as_in_parent(StopPoint& point, ReplayNode& node);
  void arm_all(ReplayNode& node);
  void disarm(StopPoint& point, ReplayNode& node);
  void disarm_all(StopPoint& point);
  // judging.cc
  bool condition_holds(const StopPoint& point, NodeId node, Judgement& judgement);
  bool is_known_false(const StopPoint& point, NodeId node);
  bool count_hit(StopPoint& point);
  // libraries.cc
  void watch_loader(ReplayNode& node);
  bool follow_loader(Stop& stop, bool may_ask);
  void follow_libraries(ReplayNode& node);
  Result<void> check_place(ReplayNode& node, Addr address, bool typed);
  // frames.cc
  Result<std::optional<FrameLife>> current_frame(ReplayNode& node, bool may_ask);
  static bool lives(ReplayNode& node, const FrameLife& frame);
  static bool is_within(ReplayNode& node, const FrameLife& frame);
  Result<void> tie_to_frame(StopPoint& point, ReplayNode& node, Watched& watched, bool may_ask);
  Result<bool> revive_watches(const StopPoint& point, ReplayNode& node, const std::string& expression);
  Result<bool> inherit_watches(const StopPoint& point, ReplayNode& node, const std::string& expression);
  bool is_watched(const StopPoint& point, ReplayNode& node, const std::string& expression, bool may_ask);
  Result<void> arm_entries(StopPoint& point, ReplayNode& node, const std::string& function,
                           const std::string& variable);
  void enter_frame(StopPoint& point, ReplayNode& node, bool may_ask);
  void leave_frames(StopPoint& point, ReplayNode& node, const Stop& stop);
  bool follow_frames(Stop& stop, bool may_ask);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Expressions& expressions_;
  SymbolCache& symbols_;
  bool patch_stores_;
  StopPoints points_;
  std::map<NodeId, NodeStops> nodes_;
  std::shared_ptr<HotStores> hot_stores_ = std::make_shared<HotStores>();
  std::optional<std::string> lost_part_;
  std::optional<DebugStop> undecided_;
  std::optional<std::set<uint32_t>> search_;  // during a Search: the stop points that it passes over
  std::vector<std::string> notices_;
};

}  // namespace friday
