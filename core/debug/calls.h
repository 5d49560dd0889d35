// Calls of functions of the program. What a plan can say (scalars in registers) is called here, in some 20 us; anything
// else gdb calls through its endpoint, and run_for_gdb() runs what it has prepared. Either way one thread runs alone,
// in native mode (core/replay/calls.cc), with watches in force, and the call is undone when the function crashes,
// blocks or does not end in time: the node is then as it was before.
//
// Expressions own it. It tells its MemoryObserver, which is the stop points, what the called function has stored. Used
// on the session's thread, while the group stands.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "core/debug/alterations.h"
#include "core/debug/symbol_cache.h"

namespace friday {

class MemoryCopy;

// Who must know that memory of a node has changed while the group stands: watches compare with what they saw last.
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  // A thread that runs alone has stored to memory that is watched.
  virtual void memory_hit(ReplayNode& node, ThreadId thread, const Stop& stop) = 0;
  // Any memory of the node may have changed, without hits.
  virtual void memory_changed(ReplayNode& node) = 0;
};

class Calls {
 public:
  // Whether a stop is one at which gdb wants to see the function that it has called.
  using Ending = std::function<bool(const Stop&)>;

  Calls(ReplaySession& session, Focus& focus, GdbPool& gdbs, Alterations& alterations, SymbolCache& symbols)
      : session_(session), focus_(focus), gdbs_(gdbs), alterations_(alterations), symbols_(symbols) {}
  // Set before the first call.
  void set_observer(MemoryObserver& observer) { observer_ = &observer; }

  // How long a called function may take; one that takes longer is stopped and undone.
  std::chrono::milliseconds timeout() const { return timeout_; }
  void set_timeout(std::chrono::milliseconds limit) { timeout_ = limit; }

  // Calls the function that a plan of the kind `call` names, in the node's current thread, and gives back its result.
  // Costs some 20 us, and a copy of all writable memory where the function's code does not show what it can change.
  Result<RawValue> call(ReplayNode& node, const KnownPlan& plan);
  // Runs a function that gdb has sent the thread into, to its return. A function that fails looks to gdb as if it had
  // raised SIGABRT; explained() tells the user what it was.
  Result<Stop> run_for_gdb(ReplayNode& node, ThreadId thread, const Ending& ends);
  // The same result, where a call of gdb's has failed with the reason that is known here instead of gdb's.
  template <typename T>
  Result<T> explained(Result<T> result) {
    auto error = std::exchange(error_, std::nullopt);
    if (!result && error && result.error().code != ErrorCode::interrupted) return std::unexpected(std::move(*error));
    return result;
  }
  // Whether a call of gdb's has failed that explained() has not told of yet.
  bool has_failed() const { return error_.has_value(); }

 private:
  class Undo;
  const FunctionEffects& effects(ReplayNode& node, uint64_t function);
  std::optional<Addr> errno_of(ReplayNode& node, ThreadId thread, uint64_t thread_pointer);
  Error describe_failure(ReplayNode& node, const std::string& what, const Result<void>& undone);
  bool left_no_trace(ReplayNode& node, ThreadId thread, const MemoryCopy& before);
  Result<Stop> run(ReplayNode& node, ThreadId thread, const Ending& ends);
  Result<void> enter(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call, const CallValues& values,
                     const ReplayNode::Standing& from, uint64_t stack);
  Result<uint64_t> result_of(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Alterations& alterations_;
  SymbolCache& symbols_;
  MemoryObserver* observer_ = nullptr;
  std::optional<Error> error_;  // of the last call that gdb made
  std::chrono::milliseconds timeout_{5000};
};

}  // namespace friday
