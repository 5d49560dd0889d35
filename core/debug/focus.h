// The node, thread and frame that the user's expressions are about: which node stopped last, which thread of each node
// is current, and whether the user has selected another frame in gdb. The parts of the debugger share one Focus, which
// the Debugger owns. It knows the replay and none of the parts.
//
// What was read of a node is valid until its state may have changed. Therefore a new epoch begins whenever the group
// runs and whenever the user changes something. Use on the session's thread only.
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
  // Call when anything may have changed that was read of a node before.
  void begin_epoch() { epoch_++; }

  // ---- the group
  // Call when the group has stopped. Begins an epoch and makes the node of the stop the current one.
  void note_stop(const Stop& stop);
  // Call when a function that gdb called has stopped. Only one thread of the node has run.
  void note_call(NodeId node);
  // Call when all nodes are rebuilt.
  void restart();
  // The node that stopped last.
  NodeId here() const { return here_; }
  // The node that ran last: here(), or the node whose store to memory shared with here() caused the stop.
  NodeId moved_last() const { return writer_.value_or(here_); }
  // Whether the node has started at the group's current time: it has completed an event, or has stopped in its own code
  // before its first event.
  bool has_started(NodeId node);
  // Returns a node whose state can be read. Fails with node_not_started before the node has started: its process may
  // exist then, but the start image that it contains is not a state of the group.
  Result<ReplayNode*> started_node(NodeId node);

  // ---- the group's time
  // The logical time of the group. In `clock` order it is that of the last event that any node has completed, or of a
  // later end of a node. In the other orders nodes are at different times, and it is that of moved_last().
  LogicalTime group_time();
  // The number of events that all nodes together have completed.
  uint64_t events_done();
  // The logical time of a node that has completed `done` events: that of the last of them, or of its first event if
  // `done` is 0.
  LogicalTime time_of(NodeId node, uint64_t done);
  // Call when a run has stopped before this event because everything before it in the order is done. Until the group
  // runs again, the event's time is the group's.
  void set_reached(const Mark& mark) { reached_ = mark; }
  void forget_reached() { reached_.reset(); }

  // ---- the threads
  // Makes this the current thread of the node.
  void select_thread(NodeId node, ThreadId thread);
  // The thread that was selected last, even if the node has run since. Does not access the node.
  ThreadId selected_thread(NodeId node) { return nodes_[node].thread; }
  // The current thread of a node, in whose innermost frame its expressions are evaluated: the one that stopped, or else
  // the one that holds the token. Reads the thread's pc once in an epoch, which may stop the node's threads.
  Result<ThreadId> current_thread(NodeId node);
  // The pc of the current thread at the last call of current_thread().
  uint64_t pc(NodeId node) { return nodes_[node].pc; }

  // ---- another frame
  // Whether the user has selected a frame in gdb that is not the innermost one of the current thread. The selection
  // ends with the epoch.
  bool is_elsewhere(NodeId node) { return nodes_[node].elsewhere_epoch == epoch_; }
  void set_elsewhere(NodeId node, bool elsewhere);
  // Call when the node was changed but has not run. Begins an epoch in which the user's selection stays.
  void note_change(NodeId node);

 private:
  struct NodeFocus {
    ThreadId thread{0};
    uint64_t pc = 0;
    // `pc` is valid in this epoch, and as long as the node waits at the same event.
    uint64_t pc_epoch = 0;
    std::optional<uint64_t> waits_at;
    std::optional<uint64_t> elsewhere_epoch;
  };

  bool tells_of_all(NodeId node, uint64_t done);

  ReplaySession& session_;
  std::map<NodeId, NodeFocus> nodes_;
  std::set<NodeId> started_;  // nodes that are known to have started
  uint64_t epoch_ = 1;
  NodeId here_;
  bool here_waits_ = true;  // it stopped before an event, or is not known to have moved last
  std::optional<NodeId> writer_;
  std::optional<Mark> reached_;
};

}  // namespace friday
