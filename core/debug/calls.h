// Calls functions of the program. Calls that a plan can describe (all arguments are in registers; the result is in
// registers, or in memory on the stack that the caller provides) are made here and take about 20 us. All other calls
// are prepared by gdb through its endpoint, and run_for_gdb() runs them. In both cases one thread runs alone, in native
// mode (core/replay/calls.cc), with watches in effect. If the function crashes, blocks or does not return in time, the
// call is undone.
//
// Owned by Expressions. Tells its MemoryObserver (GroupStopPoints) what the called function has stored. Use on the
// session's thread only, while the group is stopped.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "core/debug/alterations.h"
#include "core/debug/symbol_cache.h"

namespace friday {

class MemoryCopy;

// Is told when memory of a node has changed while the group is stopped. Watches need this, because they compare memory
// with its last known contents.
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  // `thread`, executing a called function, has stored to watched memory; `stop` is of the kind `watch`.
  virtual void memory_hit(ReplayNode& node, ThreadId thread, const Stop& stop) = 0;
  // Any memory of the node may have changed, and no hits were reported.
  virtual void memory_changed(ReplayNode& node) = 0;
};

class Calls {
 public:
  // Returns true if gdb must be told of a stop inside the function that it has called.
  using Ending = std::function<bool(const Stop&)>;

  Calls(ReplaySession& session, Focus& focus, GdbPool& gdbs, Alterations& alterations, SymbolCache& symbols)
      : session_(session), focus_(focus), gdbs_(gdbs), alterations_(alterations), symbols_(symbols) {}
  // Must be called before the first call().
  void set_observer(MemoryObserver& observer) { observer_ = &observer; }

  // The time limit for a called function. A call that takes longer is stopped and undone.
  std::chrono::milliseconds timeout() const { return timeout_; }
  void set_timeout(std::chrono::milliseconds limit) { timeout_ = limit; }

  // Executes a plan of the kind `call` in the node's current thread and returns the value of its expression. Fails with
  // call_failed if the function does not return. Takes about 20 us, plus the time to copy all writable memory if the
  // code of the function does not show what it can change.
  Result<RawValue> call(ReplayNode& node, const KnownPlan& plan);
  // Runs a function whose call gdb has prepared, until it returns or `ends` returns true. If the function fails, gdb is
  // told that it raised SIGABRT, and explained() has the real reason.
  Result<Stop> run_for_gdb(ReplayNode& node, ThreadId thread, const Ending& ends);
  // Returns `result`; but if it is an error because a call made by gdb failed, replaces gdb's reason by the real one.
  template <typename T>
  Result<T> explained(Result<T> result) {
    auto error = std::exchange(error_, std::nullopt);
    if (!result && error && result.error().code != ErrorCode::interrupted) return std::unexpected(std::move(*error));
    return result;
  }
  // Whether a call made by gdb has failed and explained() has not reported it yet.
  bool has_failed() const { return error_.has_value(); }

 private:
  class Undo;
  // Addresses on the thread's stack: the stack pointer of the call, what the function returns if it does so in memory,
  // and the end of what the program does not need any more.
  struct Room {
    uint64_t stack, returned, live;
  };
  const FunctionEffects& effects(ReplayNode& node, uint64_t function);
  std::optional<Addr> errno_of(ReplayNode& node, ThreadId thread, uint64_t thread_pointer);
  Error describe_failure(ReplayNode& node, const std::string& what, const Result<void>& undone);
  bool left_no_trace(ReplayNode& node, ThreadId thread, const MemoryCopy& before);
  Result<Stop> run(ReplayNode& node, ThreadId thread, const Ending& ends);
  static Room room_for(const ExpressionPlan::Call& call, const ReplayNode::Standing& from);
  Result<void> enter(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call, const CallValues& values,
                     const ReplayNode::Standing& from, const Room& room);
  Result<std::vector<std::byte>> returned_by(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call,
                                             const Room& room);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Alterations& alterations_;
  SymbolCache& symbols_;
  MemoryObserver* observer_ = nullptr;
  std::optional<Error> error_;  // why the last call made by gdb failed
  std::chrono::milliseconds timeout_{5000};
};

}  // namespace friday
