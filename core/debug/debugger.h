// The debugger of a replayed group: what console and Python talk to. It is made of parts that each own their state, and
// are used directly:
//
//   expressions()   read, write and call by expression                 core/debug/expressions.h
//   stop_points()   breakpoints and watches over all nodes             core/debug/group_stop_points.h
//   runner()        resume, step, run to a mark, timers                core/debug/runner.h
//   gdbs()          a gdb for each node, and the reactor               core/debug/gdb_pool.h
//
// Each uses those below it: the runner uses the stop points, they use expressions, and those the gdbs. Focus (which
// node and thread questions are about) and Alterations (what the user has changed) serve all of them. Here stands only
// what concerns several parts: a node starts, the group is built anew.
//
// One thread, one reactor: serve() must be called while a prompt waits. Everything that asks a gdb waits by serving the
// reactor, and everything that runs the group returns when it stands again.
//
// Why this is a directory of its own and not part of core/replay: replay verifies without gdb and must stay able to;
// the knowledge of mi and rsp is kept out of it (docs/architecture.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/debug/alterations.h"
#include "core/debug/expressions.h"
#include "core/debug/focus.h"
#include "core/debug/gdb_pool.h"
#include "core/debug/group_stop_points.h"
#include "core/debug/runner.h"
#include "core/replay/session.h"

namespace friday {

struct DebuggerOptions {
  ReplayOptions replay;
  GdbPoolOptions gdbs{};
  bool patch_stores = true;  // stores that hit watched pages in vain are patched (core/stop/patched_stores.h)
};

class Debugger {
 public:
  static Result<std::unique_ptr<Debugger>> open(const std::string& recording, DebuggerOptions options);
  ~Debugger();
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  ReplaySession& session() { return *session_; }
  Focus& focus() { return focus_; }
  const Alterations& alterations() const { return alterations_; }
  Expressions& expressions() { return expressions_; }
  GroupStopPoints& stop_points() { return stop_points_; }
  Runner& runner() { return runner_; }
  GdbPool& gdbs() { return gdbs_; }

  // Serves all gdbs, those of the user's too, which may run the group. To be called while a prompt waits.
  Result<void> serve(int timeout_ms);
  // Ends a run of the group, or a question that a gdb is busy with (error `interrupted`). Safe in a signal handler.
  void interrupt();
  // Builds all nodes anew, from their start images; gdbs and stop points stay. `sync`: in this order from now on.
  Result<void> restart();
  Result<void> restart(SyncMode sync);
  // Removes a stop point of any kind, timers too.
  Result<void> remove_stop_point(uint32_t id);
  // What happened beside the questions and the user should know, since the last time.
  std::vector<std::string> take_notices();

 private:
  Debugger(std::unique_ptr<ReplaySession> session, DebuggerOptions options);
  void node_started(ReplayNode& node);

  std::unique_ptr<ReplaySession> session_;
  Focus focus_;
  GdbPool gdbs_;
  Alterations alterations_;
  Expressions expressions_;
  GroupStopPoints stop_points_;
  Runner runner_;
  std::vector<std::string> output_;  // of called functions, for take_notices()
};

}  // namespace friday
