// Expressions of C and C++ over the nodes: their values are read, assigned to, and their functions called. gdb makes a
// plan of an expression once for a program and a place in it (SymbolCache); the plan is evaluated here, which wakes no
// gdb. What no plan can do (calls with structs, floating-point arithmetic, thread-local storage) gdb evaluates itself.
//
// An expression is meant in the innermost frame of the node's current thread, or in the frame that the user has
// selected in gdb (Focus). This part of the debugger uses the gdb pool, and is used by the stop points and the runner;
// of those it knows only that somebody wants to hear of changed memory (MemoryObserver). Used on the session's thread,
// while the group stands.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/debug/alterations.h"
#include "core/debug/calls.h"
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
  // Set before the first question.
  void set_observer(MemoryObserver& observer) {
    observer_ = &observer;
    calls_.set_observer(observer);
  }

  SymbolCache& symbols() { return symbols_; }
  Calls& calls() { return calls_; }
  TypeRegistry& types() { return symbols_.types(); }

  // ---- reading
  // The value of an expression, functions in it called. A few microseconds where its plan is known; else gdb is asked,
  // which may take seconds the first time.
  Result<RawValue> read(NodeId node, const std::string& expression);
  // The same if neither a gdb nor a call is needed for it; else none. It may be asked while a gdb waits for the node.
  Result<std::optional<RawValue>> read_quickly(NodeId node, const std::string& expression);
  // All bytes, or the error bad_address.
  Result<void> read_memory(NodeId node, uint64_t address, std::span<std::byte> out);
  // The bytes up to the next zero, 64 KiB of them at most.
  Result<std::string> read_string(NodeId node, uint64_t address);
  // A plan for the place where gdb finds an expression now, for a watch of what bytecode cannot say (an array made by a
  // cast). `reason` says in the error why the expression has no plan of its own.
  Result<std::shared_ptr<const ExpressionPlan>> find_place_now(NodeId node, const std::string& expression,
                                                               const std::string& reason);

  // ---- changing
  // Each alters the node, unless the target is the workspace.
  Result<void> write(NodeId node, const std::string& target, const std::string& value);
  Result<void> write_bytes(NodeId node, const std::string& target, std::span<const std::byte> data);
  // Puts data where the next expression's call can have it as an argument; its address.
  Result<uint64_t> stage(NodeId node, std::span<const std::byte> data) { return workspace_.stage(node, data); }

  // ---- gdb
  // A command of gdb's command line; what it printed. It may select another frame, and may alter the node.
  Result<std::string> run_gdb_command(NodeId node, const std::string& command);
  // Names of the program that begin with the prefix.
  Result<std::vector<std::string>> complete(NodeId node, const std::string& prefix);

  // All nodes are built anew.
  void restart() {
    symbols_.restart();
    workspace_.restart();
  }

 private:
  Result<RawValue> read_by_plan(ReplayNode& node, const KnownPlan& plan);
  Result<RawValue> read_through_gdb(NodeId node, const std::string& expression);
  // writing.cc
  Result<std::optional<uint64_t>> whole_number(ReplayNode& node, const KnownPlan& plan);
  Result<bool> assign(ReplayNode& node, const std::string& target, const std::string& value, bool own);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Alterations& alterations_;
  SymbolCache symbols_;
  Calls calls_;
  Workspace workspace_;
  MemoryObserver* observer_ = nullptr;
};

}  // namespace friday
