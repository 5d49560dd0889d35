// What the user has changed in the nodes: from when on a node is no longer what was recorded. Whoever changes a node
// says so here, and gdb and the focus hear of it. The Debugger owns it; used on the session's thread.
#pragma once

#include <map>
#include <optional>

#include "core/debug/focus.h"
#include "core/debug/gdb_pool.h"

namespace friday {

class Alterations {
 public:
  Alterations(ReplaySession& session, Focus& focus, GdbPool& gdbs) : session_(session), focus_(focus), gdbs_(gdbs) {}

  // Memory of the node has changed, not where its threads stand.
  void note_memory(NodeId node) {
    if (!since_.contains(node)) since_.emplace(node, session_.time(node));
    gdbs_.node_changed(node);
  }
  // Anything may have changed, registers too: what was read of the node before is old.
  void note_any(NodeId node) {
    note_memory(node);
    focus_.note_change(node);
  }
  bool contains(NodeId node) const { return since_.contains(node); }
  // The node's logical time at its first alteration.
  std::optional<LogicalTime> since(NodeId node) const {
    auto it = since_.find(node);
    return it == since_.end() ? std::nullopt : std::optional(it->second);
  }
  // All nodes are built anew.
  void clear() { since_.clear(); }

 private:
  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  std::map<NodeId, LogicalTime> since_;
};

}  // namespace friday
