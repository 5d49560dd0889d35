// Caches gdb's answers about the code of programs: plans of expressions, scopes, locations of breakpoints, source
// lines. gdb is asked once for each program, through any node of that program, and the answer is valid for all its
// nodes, as programs.h explains. A new question takes milliseconds, or seconds if a gdb must be started first.
//
// Owned by Expressions; the stop points and Calls use it too. It uses the session, the Focus and the gdb pool. Use on
// the session's thread only. Functions that ask gdb serve the reactor meanwhile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/debug/focus.h"
#include "core/debug/gdb_pool.h"
#include "core/debug/node_code.h"
#include "core/debug/types.h"

namespace friday {

class SymbolCache {
 public:
  SymbolCache(ReplaySession& session, Focus& focus, GdbPool& gdbs) : session_(session), focus_(focus), gdbs_(gdbs) {}

  // The types of all plans.
  TypeRegistry& types() { return types_; }

  // What is known of the node's code; it may be out of date.
  NodeCode& code(NodeId node) { return nodes_[node]; }
  // The same, brought up to date: reads the mappings of the process, once in an epoch.
  Result<NodeCode*> refresh(NodeId node);
  // Call when the node has loaded or unloaded code. `changing`: the loader has not finished yet.
  void code_changed(NodeId node, bool changing);
  // Call when all nodes are rebuilt (from the same files).
  void restart();

  // ---- plans
  // The plan of an expression for the innermost frame of the node's current thread, or for the frame that the user has
  // selected. Fails if gdb says that the expression is invalid.
  Result<KnownPlan> plan(NodeId node, const std::string& expression);
  // The cached plan or refusal for the innermost frame; null if there is none. Does not ask gdb.
  // Focus::current_thread() must have been called since the group ran.
  const KnownPlan* find_plan(NodeId node, const std::string& expression);

  // ---- places
  // Resolves the location of a breakpoint. Fails with not_found or bad_input if there is none.
  Result<std::vector<CodeLocation>> locate(NodeId node, const std::string& location);
  // The places in a function where a local variable comes into scope. `variable` is an expression that begins with the
  // name of the variable.
  Result<std::vector<CodeLocation>> locate_local(NodeId node, const std::string& function, const std::string& variable);
  // Whether a condition can be meant at an address. Fails with not_found or bad_input if it names a variable or a
  // member that does not exist there, and with other errors if gdb cannot be asked.
  Result<void> check_condition(NodeId node, Addr address, const std::string& condition);
  // The address of a location in the node. locate() must have been called for the same node.
  uint64_t address_of(NodeId node, const CodeLocation& location) {
    return location.place ? code(node).layout.address(*location.place) : location.address;
  }
  // For example "process_data at process.c:69", or the address if gdb knows no function or line for it.
  std::string describe_place(NodeId node, uint64_t pc);

 private:
  Result<std::pair<GdbLink*, const Layout*>> connect_any(NodeId node);
  Result<KnownPlan> make_plan(NodeId node, const std::string& expression);
  Result<KnownPlan> plan_elsewhere(NodeId node, const std::string& expression);
  Result<const CodeScope*> find_scope(NodeId node);
  std::optional<KnownPlan> shared_plan(NodeId node, const CodeScope& scope, const std::string& expression);
  void keep_plan(NodeId node, const CodeScope& scope, const std::string& expression, const KnownPlan& plan);
  Result<std::vector<CodeLocation>> ask_locations(NodeId node, const std::string& command, bool anywhere);
  Result<std::vector<CodeLocation>> locate_by_program(NodeId node, const std::string& command);
  Result<std::string> find_source(NodeId node, uint64_t pc);

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  TypeRegistry types_;
  std::map<NodeId, NodeCode> nodes_;
  std::map<std::string, Program> programs_;  // by the key of the layout and the loader's list of libraries
};

}  // namespace friday
