// Records which nodes the user has altered, and since when: from then on a node is no longer what was recorded. Every
// part that changes a node reports it here, and gdb and the Focus are told. Gdbs of the user store while no command of
// Friday runs, so every question looks first whether they have. Owned by the Debugger; use on the session's thread
// only.
#pragma once

#include <map>
#include <optional>

#include "core/debug/focus.h"
#include "core/debug/gdb_pool.h"

namespace friday {

class Alterations {
 public:
  Alterations(ReplaySession& session, Focus& focus, GdbPool& gdbs) : session_(session), focus_(focus), gdbs_(gdbs) {}

  // Call after memory of the node was changed, but no registers.
  void note_memory(NodeId node) {
    add(node);
    gdbs_.node_changed(node, GdbPool::Changer::friday);
  }
  // Call after anything may have changed, including registers. What was read of the node before is out of date.
  void note_any(NodeId node) {
    note_memory(node);
    focus_.note_change(node);
  }
  // Call before a gdb of the user runs the group, when the commands of the others have ended: what they have stored
  // belongs to the place before the run.
  void note_users_stores() { note_stores(GdbPool::Stores::all); }
  // Call when a process was forked: it is a copy of its parent's.
  void note_fork(NodeId parent, NodeId child) {
    if (since_.contains(parent)) since_.emplace(child, session_.time(child));
  }
  bool any() {
    note_settled_stores();
    return !since_.empty();
  }
  // The node's logical time at its first alteration; none if it is not altered.
  std::optional<LogicalTime> since(NodeId node) {
    note_settled_stores();
    auto it = since_.find(node);
    return it == since_.end() ? std::nullopt : std::optional(it->second);
  }
  // Call when all nodes are rebuilt.
  void clear() {
    (void)gdbs_.take_users_stores(GdbPool::Stores::all);
    since_.clear();
  }

  // The nodes that are altered, each with its logical time at its first alteration.
  using Since = std::map<NodeId, LogicalTime>;
  const Since& all() {
    note_settled_stores();
    return since_;
  }
  // Call when the group has come back to a place at which these were altered.
  void restore(const Since& since) { since_ = since; }

 private:
  // A question may come while a gdb of the user prepares a call, which need not alter anything.
  void note_settled_stores() { note_stores(GdbPool::Stores::settled); }
  void note_stores(GdbPool::Stores which) {
    for (NodeId node : gdbs_.take_users_stores(which)) {
      add(node);
      gdbs_.node_changed(node, GdbPool::Changer::user);
      focus_.note_change(node);
    }
  }
  void add(NodeId node) {
    if (ReplayNode* altered = session_.find(node)) altered->note_altered();
    if (!since_.contains(node)) since_.emplace(node, session_.time(node));
  }

  ReplaySession& session_;
  Focus& focus_;
  GdbPool& gdbs_;
  Since since_;
};

}  // namespace friday
