// Stop points over all nodes of a group: breakpoints and watches are found by expression or place, put in force in each
// node, and judged when one is hit. They follow what the nodes do: libraries that are loaded and unloaded, frames that
// are entered and left (a watch of a local lives as long as its frame), processes that are forked.
//
// The Debugger owns it. It uses expressions, and through them the gdbs; the runner uses it to judge stops. It hears of
// memory that called functions and the user change, as the MemoryObserver of expressions. Used on the session's thread.
//
// What stands where: stops.cc makes stop points and puts them in force, judging.cc judges hits, frames.cc has watches
// of locals, libraries.cc follows the loader.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/debug/debug_stop.h"
#include "core/debug/expressions.h"
#include "core/stop/chain.h"
#include "core/stop/stop_points.h"

namespace friday {

// Whether hits of the user's stop points are judged and counted, or passed over by a run to another place.
enum class Hits { judged, passed_over };

class GroupStopPoints final : public MemoryObserver {
 public:
  // `patch_stores`: stores that hit watched pages in vain are patched (core/stop/patched_stores.h).
  GroupStopPoints(ReplaySession& session, Focus& focus, GdbPool& gdbs, Expressions& expressions, bool patch_stores)
      : session_(session),
        focus_(focus),
        gdbs_(gdbs),
        expressions_(expressions),
        symbols_(expressions.symbols()),
        patch_stores_(patch_stores) {}

  // ---- what the user asks for
  // Each may ask gdbs, of one node for each program. Where a stop point cannot be put in force it is pending; that it
  // cannot anywhere is the error, unless its options say that it may wait.
  Result<uint32_t> add_breakpoint(const std::vector<NodeId>& nodes, const std::string& location,
                                  const std::string& condition);
  Result<uint32_t> add_watch(const std::vector<NodeId>& nodes, const std::vector<std::string>& expressions,
                             const std::string& condition);
  // A timer has a number among the stop points; `period` describes it. The runner makes it due.
  Result<uint32_t> add_timer(const std::string& period);
  Result<void> remove(uint32_t id);
  Result<void> enable(uint32_t id, bool on);
  Result<void> ignore(uint32_t id, uint64_t count);
  Result<void> set_condition(uint32_t id, const std::string& text);
  const StopPoints& table() const { return points_; }
  Result<void> set_patch_stores(bool on);
  bool patches_stores() const { return patch_stores_; }

  // ---- what nodes do
  // A process exists now: what covers the node is put in force. It may be a copy of its parent, which stands at the
  // fork.
  void node_started(ReplayNode& node);
  // All nodes are built anew: stop points stay, and are put in force as the nodes start.
  void restart();
  // Stop points follow the libraries that were loaded while no gdb could be asked. Before the group goes on.
  void follow_missed_libraries();

  // ---- judging stops
  // What a stop means to the user; none: nothing, the group goes on. Conditions that need a gdb ask it.
  std::optional<DebugStop> judge_breakpoint(Stop stop, Hits hits);
  std::optional<DebugStop> judge_watch(Stop stop, Hits hits);
  // Does what breakpoints of Friday's own are for, and takes them from the stop's owners; true when that was all there
  // is to the stop. Without `may_ask` no gdb is asked, since it waits for the node.
  bool pass_over_own(Stop& stop, bool may_ask);
  // Whether the conditions of all breakpoints that were hit are known not to hold, once the focus knows of the stop.
  // Asks no gdb, which may be waiting for the node: what only gdb can judge is not refused.
  bool is_refused(const Stop& stop);
  // That a stop point was not put in force, or a condition not judged, since the gdb that had to be asked died, and
  // another one after it: what follows would look as if nothing had been hit.
  std::optional<std::string> take_lost_part() { return std::exchange(lost_part_, std::nullopt); }
  bool has_lost_part() const { return lost_part_.has_value(); }

  // What the user should know of watches, since the last time.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }

 private:
  // A function's frame on a thread's stack.
  struct FrameLife {
    ThreadId thread{};
    uint64_t end = 0;   // the stack pointer when it has returned; its return address stands below
    uint64_t back = 0;  // where it returns to
    std::string function;
  };
  struct Watched {
    std::string expression;               // as the user wrote it
    std::optional<FrameLife> frame;       // it lives as long as this one
    std::unique_ptr<NodeControl> frozen;  // where its locals were found
    NodeControl& seen_from(ReplayNode& node) const;
    std::unique_ptr<ChainWatch> chain;
    uint32_t type = 0;  // of the value, in the TypeRegistry
  };
  // How far stop points have followed a node's loader.
  enum class Loader {
    followed,
    changing,  // it is changing its list
    missed,    // it has changed its list while gdb could not be asked
  };
  struct NodeStops {
    std::map<uint32_t, std::vector<Watched>> watches;  // by stop point: one an expression, of locals one an activation
    uint64_t r_debug = 0;                              // of the node's loader
    Loader loader = Loader::followed;
    uint32_t next_index = 0;  // of a watched range
  };
  struct Judgement {  // of the conditions at one stop
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::string failure;  // of the first that could not be evaluated
    size_t more_failed = 0;
    std::string note() const;
  };

  // MemoryObserver
  void memory_hit(ReplayNode& node, ThreadId thread, const Stop& stop) override;
  void memory_changed(ReplayNode& node) override;

  // stops.cc
  Result<void> any_replayed(const std::vector<NodeId>& nodes);
  Result<void> arm(StopPoint& point, ReplayNode& node);
  Result<void> arm_breakpoint(StopPoint& point, ReplayNode& node);
  Result<void> arm_watch(StopPoint& point, ReplayNode& node);
  Result<void> arm_expression(StopPoint& point, ReplayNode& node, const std::string& expression,
                              const std::string& text);
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
  bool count_hit(StopPoint& point);
  // libraries.cc
  void watch_loader(ReplayNode& node);
  bool follow_loader(Stop& stop, bool may_ask);
  void follow_libraries(ReplayNode& node);
  Result<void> check_place(ReplayNode& node, Addr address, bool typed);
  // frames.cc
  Result<std::optional<FrameLife>> current_frame(ReplayNode& node, bool may_ask);
  static bool lives(ReplayNode& node, const FrameLife& frame);
  Result<void> tie_to_frame(StopPoint& point, ReplayNode& node, Watched& watched, bool may_ask);
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
  std::vector<std::string> notices_;
};

}  // namespace friday
