// Where the replayed group stands, as the user's questions mean it: which node stopped last, which thread of each node
// an expression is about, and whether the user has selected another frame in gdb. The parts of the debugger share one
// Focus, which the Debugger owns; it knows the replay and none of the parts.
//
// Answers about a node are kept as long as its state cannot have changed. For that every move of the group, and every
// change that the user makes, begins a new epoch. Used on the session's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "core/replay/session.h"

namespace friday {

class Focus {
 public:
  explicit Focus(ReplaySession& session) : session_(session), here_(session.nodes().front()) {}

  uint64_t epoch() const { return epoch_; }
  // What was read of any node before this call may have changed.
  void begin_epoch() { epoch_++; }

  // ---- the group
  // The group stopped: begins an epoch, and makes the node that stopped the one that questions are about.
  void note_stop(const Stop& stop);
  // A thread of the node ran alone, in a function that gdb called, and stands again: nothing else has moved.
  void note_call(NodeId node);
  // All nodes are built anew and stand at their start.
  void restart();
  // The node that stopped last.
  NodeId here() const { return here_; }
  // The node that moved last: here(), or the one that stored to memory which it shares with here().
  NodeId moved_last() const { return writer_.value_or(here_); }
  // Whether the group's time has come to the node: it has done an event, or runs its first lines.
  bool has_started(NodeId node);
  // A node whose state can be read. The start image of another is there before its time has come, but is no state of
  // the group: that is the error node_not_started.
  Result<ReplayNode*> started_node(NodeId node);

  // ---- the group's time
  // The logical time of the group. In `clock` order a node between its first and last event tells it; else all nodes
  // are asked for the latest event that any has done, or the end of one that has ended since.
  LogicalTime group_time();
  // How many events the group has done, found in the same way.
  uint64_t events_done();
  // The logical time of a node that has done so many events: of the last of them, or of its first event before that.
  LogicalTime time_of(NodeId node, uint64_t done);
  // A run has stopped before this event, since all before it in the group's order is done: until the group moves, its
  // time is the group's.
  void set_reached(const Mark& mark) { reached_ = mark; }
  void forget_reached() { reached_.reset(); }

  // ---- the threads
  // Expressions of the node are about this thread from now on.
  void select_thread(NodeId node, ThreadId thread);
  // The thread selected last, whether or not the node has moved since. It costs nothing.
  ThreadId selected_thread(NodeId node) { return nodes_[node].thread; }
  // The thread whose innermost frame the expressions of a node are about: the one that stopped, or else the one that
  // holds the token. Reads its pc once an epoch, which may stop the node's threads.
  Result<ThreadId> current_thread(NodeId node);
  // The pc of the current thread, as current_thread() found it.
  uint64_t pc(NodeId node) { return nodes_[node].pc; }

  // ---- another frame
  // Whether the user has selected, in gdb, another frame or thread of the node than the current one. The selection
  // ends with the epoch.
  bool is_elsewhere(NodeId node) { return nodes_[node].elsewhere_epoch == epoch_; }
  void set_elsewhere(NodeId node, bool elsewhere);
  // The node was changed where it stands: begins an epoch, in which the user's selection stays.
  void note_change(NodeId node);

 private:
  struct NodeFocus {
    ThreadId thread{0};
    uint64_t pc = 0;
    // The pc is valid in this epoch, or as long as the node waits at the same event.
    uint64_t pc_epoch = 0;
    std::optional<uint64_t> waits_at;
    std::optional<uint64_t> elsewhere_epoch;
  };

  bool tells_of_all(NodeId node, uint64_t done);

  ReplaySession& session_;
  std::map<NodeId, NodeFocus> nodes_;
  std::set<NodeId> started_;  // nodes that stopped in their own code: they run, whatever they have done
  uint64_t epoch_ = 1;
  NodeId here_;
  std::optional<NodeId> writer_;
  std::optional<Mark> reached_;
};

}  // namespace friday
