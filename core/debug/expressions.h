// Evaluates C and C++ expressions in nodes: reads values, assigns to them, and calls functions. gdb compiles an
// expression to a plan once for a program and a scope (SymbolCache), and the plan is evaluated here without gdb. What a
// plan cannot express (calls with arguments on the stack, floating-point arithmetic, thread-local storage) is evaluated
// by gdb.
//
// An expression is evaluated in the innermost frame of the node's current thread, or in the frame that the user has
// selected in gdb (Focus). This part of the debugger uses the gdb pool, and is used by the stop points and the runner.
// Of those it knows only the MemoryObserver. Use on the session's thread only, while the group is stopped.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/debug/alterations.h"
#include "core/debug/calls.h"
#include "core/debug/costs.h"
#include "core/debug/symbol_cache.h"
#include "core/debug/workspace.h"

namespace friday {

class Expressions {
 public:
  Expressions(ReplaySession& session, Focus& focus, GdbPool& gdbs, Alterations& alterations)
      : session_(session),
        focus_(focus),
        gdbs_(gdbs),
        alterations_(alterations),
        symbols_(session, focus, gdbs),
        calls_(session, focus, gdbs, alterations, symbols_),
        workspace_(focus) {}
  // Must be called before any other function.
  void set_observer(MemoryObserver& observer) {
    observer_ = &observer;
    calls_.set_observer(observer);
  }

  SymbolCache& symbols() { return symbols_; }
  Calls& calls() { return calls_; }
  TypeRegistry& types() { return symbols_.types(); }
  Costs& costs() { return costs_; }

  // ---- reading
  // Evaluates an expression, including calls of functions in it. Takes a few microseconds if its plan is known;
  // otherwise gdb is asked, which may take seconds the first time.
  Result<RawValue> read(NodeId node, const std::string& expression);
  // The same, but returns none if a gdb or a call of a function would be needed. May be called while a gdb waits for
  // the node.
  Result<std::optional<RawValue>> read_quickly(NodeId node, const std::string& expression);
  // Reads out.size() bytes; fails with bad_address if any of them cannot be read.
  Result<void> read_memory(NodeId node, uint64_t address, std::span<std::byte> out);
  // Reads a NUL-terminated string, at most about 64 KiB of it.
  Result<std::string> read_string(NodeId node, uint64_t address);
  // A plan that yields the memory which the expression denotes now, whatever the expression denotes later. For watches
  // of expressions that bytecode cannot express (an array made by a cast). `reason`, used in the error message, says
  // why the expression has no other plan.
  Result<std::shared_ptr<const ExpressionPlan>> find_place_now(NodeId node, const std::string& expression,
                                                               const std::string& reason);

  // ---- changing
  // write() and write_bytes() alter the node, unless the target is the workspace.
  Result<void> write(NodeId node, const std::string& target, const std::string& value);
  Result<void> write_bytes(NodeId node, const std::string& target, std::span<const std::byte> data);
  // Copies data into the node for use as an argument of a call in the next expression. Returns its address.
  Result<uint64_t> stage(NodeId node, std::span<const std::byte> data) { return workspace_.stage(node, data); }

  // ---- gdb
  // Executes a command of gdb's command line and returns what it printed. The command may select another frame and may
  // alter the node. `print` of operations on containers, for which gdb would call functions of the program, evaluates
  // them here; gdb shows the result.
  Result<std::string> run_gdb_command(NodeId node, const std::string& command);
  // Names of the program that begin with the prefix.
  Result<std::vector<std::string>> complete(NodeId node, const std::string& prefix);

  // Call when all nodes are rebuilt.
  void restart() {
    symbols_.restart();
    workspace_.restart();
  }

 private:
  // How an expression was evaluated.
  struct Used {
    Costs::Way way = Costs::Way::plan;
    std::string reason;  // why gdb had to
  };
  Result<RawValue> answer(NodeId node, const std::string& expression, Used& used);
  Result<RawValue> read_by_plan(ReplayNode& node, const KnownPlan& plan);
  Result<RawValue> read_through_gdb(NodeId node, const std::string& expression);
  // Has gdb do something that may store, or call functions. What it has stored alters the node, even if a call fails
  // behind that. An error has the reason that gdb does not know.
  template <typename Ask>
  auto ask_gdb(NodeId node, GdbLink& link, const Ask& ask) {
    begin_asking(link);
    auto said = ask();
    const bool call_has_failed = calls_.has_failed();
    auto result = calls_.explained(std::move(said));
    note_stores(node, link, call_has_failed);
    if (auto refusal = link.client().view().take_refusal();
        refusal && !result && result.error().code != ErrorCode::interrupted)
      result = std::unexpected(std::move(*refusal));
    return result;
  }
  static void begin_asking(GdbLink& link);
  void note_stores(NodeId node, GdbLink& link, bool call_has_failed);
  Result<std::optional<std::string>> print_by_plan(NodeId node, const std::string& command);
  // in writing.cc
  Result<std::optional<uint64_t>> whole_number(ReplayNode& node, const KnownPlan& plan);
  Result<bool> assign(ReplayNode& node, const std::string& target, const std::string& value, bool own);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Alterations& alterations_;
  SymbolCache symbols_;
  Calls calls_;
  Workspace workspace_;
  Costs costs_;
  MemoryObserver* observer_ = nullptr;
};

}  // namespace friday
