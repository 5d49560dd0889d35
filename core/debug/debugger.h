// The debugger of a replayed group, used by the console and by Python. It consists of parts that each own their state
// and are used directly:
//
//   backward()      run back to the previous hit, marks                core/debug/backward.h
//   moves()         take the user's last moves back                    core/debug/moves.h
//   runner()        resume, step, run to a mark, timers                core/debug/runner.h
//   stop_points()   breakpoints and watchpoints on all nodes           core/debug/group_stop_points.h
//   expressions()   read, write and call by expression                 core/debug/expressions.h
//   gdbs()          a gdb for each node, and the reactor               core/debug/gdb_pool.h
//   history()       checkpoints of the group, for going back           core/history/history.h
//
// Each part uses only those below it. Focus (the node and thread that expressions are about) and Alterations (what the
// user has changed) serve all of them. This class itself does only what concerns several parts: a node starts, or the
// group is rebuilt.
//
// There is one thread and one reactor. serve() must be called while a prompt waits. A function that asks a gdb serves
// the reactor while it waits, and a function that runs the group returns when the group has stopped.
//
// This is not part of core/replay, which must be able to verify a recording without gdb (docs/architecture.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/debug/alterations.h"
#include "core/debug/backward.h"
#include "core/debug/expressions.h"
#include "core/debug/focus.h"
#include "core/debug/gdb_pool.h"
#include "core/debug/group_stop_points.h"
#include "core/debug/moves.h"
#include "core/debug/runner.h"
#include "core/history/history.h"
#include "core/replay/session.h"

namespace friday {

struct DebuggerOptions {
  ReplayOptions replay;
  GdbPoolOptions gdbs{};
  bool patch_stores = true;  // patch stores that cause many false positives (core/stop/patched_stores.h)
};

class Debugger final : private Returner {
 public:
  static Result<std::unique_ptr<Debugger>> open(const std::string& recording, DebuggerOptions options);
  ~Debugger() override;
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  ReplaySession& session() { return *session_; }
  Focus& focus() { return focus_; }
  Alterations& alterations() { return alterations_; }
  Expressions& expressions() { return expressions_; }
  GroupStopPoints& stop_points() { return stop_points_; }
  Runner& runner() { return runner_; }
  GdbPool& gdbs() { return gdbs_; }
  History& history() { return history_; }
  Backward& backward() { return backward_; }
  Moves& moves() { return moves_; }

  // Serves all gdbs, including those of the user, which may run the group. Call while a prompt waits. Returns after
  // something was served, and at the latest after `timeout_ms`; -1 waits without limit.
  Result<void> serve(int timeout_ms);
  // Stops a run of the group, or makes a command that a gdb executes fail with the error `interrupted`. Safe on any
  // thread and in signal handlers.
  void interrupt();
  // Brings all nodes back to their start. gdbs and stop points are kept. `sync` changes the order.
  Result<void> restart();
  Result<void> restart(SyncMode sync);
  // Brings the group to the last checkpoint before the target; if it is past the target and there is no checkpoint, to
  // the start. Nothing is altered any more then. Leaves it where it is if that is as near. Returns whether it has
  // moved.
  Result<bool> approach(const Mark& target);
  // Removes a stop point of any kind. Fails with not_found if there is none with this id.
  Result<void> remove_stop_point(uint32_t id);
  // The nodes of which something was read since the last call that may depend on payload which nobody has any more.
  std::vector<NodeId> take_inferred();
  // Messages for the user that are not answers, each returned once.
  std::vector<std::string> take_notices();

 private:
  Debugger(std::unique_ptr<ReplaySession> session, DebuggerOptions options);
  void node_started(ReplayNode& node);
  void node_stands(ReplayNode& node);
  void forget_run();
  Result<void> rebuild();
  Result<void> go_back(const GroupCheckpoint& checkpoint) override;
  Result<void> go_to_start() override;

  std::unique_ptr<ReplaySession> session_;
  Focus focus_;
  GdbPool gdbs_;
  Alterations alterations_;
  Expressions expressions_;
  GroupStopPoints stop_points_;
  History history_;
  Runner runner_;
  Backward backward_;
  Moves moves_;
  bool told_registers_ = false;      // that this machine lacks debug registers
  std::vector<std::string> output_;  // what called functions have written, for take_notices()
};

}  // namespace friday
