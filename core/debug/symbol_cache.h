// What gdb has answered about the code of programs: plans of expressions, blocks, places of breakpoints, source lines.
// Each is asked once for a program, of whichever node's gdb knows it, and holds for all nodes of that program, as
// programs.h explains. A question that was asked before costs no gdb; one that is new costs a round trip of
// milliseconds, or seconds when a gdb must be started for it.
//
// Expressions own it; the stop points and calls ask it too. It knows nodes, focus and gdbs. Used on the session's
// thread; whatever asks a gdb serves the reactor meanwhile.
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

  // Types of all plans that were made.
  TypeRegistry& types() { return types_; }

  // What is known of the node's code, as of the last question.
  NodeCode& code(NodeId node) { return nodes_[node]; }
  // The same as of now: looks at the process's mappings, once an epoch.
  Result<NodeCode*> refresh(NodeId node);
  // Code of the node came or went. `changing`: the loader is still at it.
  void code_changed(NodeId node, bool changing);
  // All nodes are built anew, from the same files.
  void restart();

  // ---- plans
  // How the expression is evaluated in the innermost frame of the node's current thread, or in the frame that the user
  // has selected. What gdb refuses is an error.
  Result<KnownPlan> plan(NodeId node, const std::string& expression);
  // The plan, or the refusal, that is known without asking; null when there is none. current_thread() of the Focus must
  // have been asked since the group moved.
  const KnownPlan* find_plan(NodeId node, const std::string& expression);

  // ---- places
  // Where a breakpoint at a location stands.
  Result<std::vector<CodeLocation>> locate(NodeId node, const std::string& location);
  // Where a variable of a function comes into being; `variable` is the beginning of an expression.
  Result<std::vector<CodeLocation>> locate_local(NodeId node, const std::string& function, const std::string& variable);
  // A location's address in the node; locate() must have been asked for the same node.
  uint64_t address_of(NodeId node, const CodeLocation& location) {
    return location.place ? code(node).layout.address(*location.place) : location.address;
  }
  // "process_data at process.c:69", or the address when gdb knows no line of it.
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
  std::map<std::string, Program> programs_;  // by the layout's key and the loader's list
};

}  // namespace friday
