#include "core/debug/focus.h"

#include <algorithm>

namespace friday {

namespace {

// Whether the thread executes code of the program. Before that begins, it waits in the shim.
bool is_in_own_code(ReplayNode& node, ThreadId id) {
  const ReplayNode::Thread* thread = node.thread_of(id);
  user_regs_struct registers;
  return thread && thread->stopped && TracedProcess::registers(thread->tid, registers) && !node.in_shim(registers.rip);
}

}  // namespace

void Focus::note_stop(const Stop& stop) {
  begin_epoch();
  reached_.reset();
  here_ = stop.node;
  writer_ = stop.writer ? std::optional(stop.writer->node) : std::nullopt;
  here_waits_ = stop.kind == Stop::Kind::event;
  using Kind = Stop::Kind;
  // A node that waits before its first event has run its own code up to that.
  if (stop.kind == Kind::breakpoint || stop.kind == Kind::watch || stop.kind == Kind::step || stop.kind == Kind::event)
    started_.insert(stop.node);
  if (ReplayNode* node = stop.kind == Kind::interrupt ? session_.find(stop.node) : nullptr;
      node && node->state() == NodeState::live && is_in_own_code(*node, stop.thread))
    started_.insert(stop.node);
}

void Focus::note_call(NodeId node) {
  begin_epoch();
  here_ = node;
}

void Focus::restart() {
  begin_epoch();
  reached_.reset();
  here_ = session_.nodes().front();
  here_waits_ = true;  // it need not be the node that moved last
  started_.clear();
  for (auto& [id, node] : nodes_) node.waits_at.reset();
}

bool Focus::has_started(NodeId id) {
  ReplayNode* node = session_.find(id);
  if (!node || !node->has_process()) return false;
  if (node->state() == NodeState::ended || started_.contains(id)) return true;
  if (session_.waits_at(id).value_or(1) == 0 || node->events_done() == 0) return false;
  started_.insert(id);  // remembered until restart()
  return true;
}

Result<ReplayNode*> Focus::started_node(NodeId id) {
  FRIDAY_TRY(node, session_.readable(id));
  if (!has_started(id))
    return fail(ErrorCode::node_not_started, "node {} has not started yet at this point of the replay", id);
  return node;
}

// Whether the group's time is that of this node, which has completed `done` events. In `clock` order it is that of the
// node that moved last, between its first and last event; then no other node needs to be asked. A node that waits
// before an event has moved before others. In the other orders it is by definition.
bool Focus::tells_of_all(NodeId id, uint64_t done) {
  ReplayNode* node = session_.find(id);
  return session_.sync() != SyncMode::clock || (done > 0 && !here_waits_ && node && node->state() != NodeState::ended);
}

LogicalTime Focus::group_time() {
  const Schedule& order = session_.schedule();
  if (reached_) return order.time_of(reached_->node, reached_->event);
  const NodeId id = moved_last();
  const uint64_t done_here = session_.mark(id).event.value;
  if (tells_of_all(id, done_here)) return time_of(id, done_here);
  const uint64_t done = session_.events_done();
  const Mark last = order.at_position(done == 0 ? 0 : done - 1);
  LogicalTime now = order.time_of(last.node, last.event);
  for (NodeId each : session_.nodes())
    if (const EndPlace* end = session_.end_reached(each)) now = std::max(now, end->time);
  return now;
}

uint64_t Focus::events_done() {
  const NodeId id = moved_last();
  const uint64_t done = session_.mark(id).event.value;
  if (session_.sync() != SyncMode::clock || !tells_of_all(id, done)) return session_.events_done();
  return session_.schedule().position_of(id, {std::min(done, session_.schedule().event_count(id)) - 1}) + 1;
}

LogicalTime Focus::time_of(NodeId id, uint64_t done) {
  const uint64_t count = session_.schedule().event_count(id);
  if (count == 0) return {0, 0, id, 0};
  return session_.schedule().time_of(id, {done == 0 ? 0 : std::min(done, count) - 1});
}

void Focus::select_thread(NodeId id, ThreadId thread) {
  nodes_[id].thread = thread;
  nodes_[id].waits_at.reset();
}

Result<ThreadId> Focus::current_thread(NodeId id) {
  FRIDAY_TRY(node, session_.readable(id));
  NodeFocus& focus = nodes_[id];
  if (focus.pc_epoch == epoch_) return focus.thread;
  const auto waits_at = session_.waits_at(id);
  if (waits_at && focus.waits_at == waits_at) return focus.thread;
  if (id != here_ || !node->thread_of(focus.thread)) focus.thread = node->current();
  FRIDAY_TRY(pc, node->program_counter(focus.thread));
  focus.pc = pc;
  focus.pc_epoch = epoch_;
  focus.waits_at = waits_at;
  return focus.thread;
}

void Focus::set_elsewhere(NodeId id, bool elsewhere) {
  nodes_[id].elsewhere_epoch = elsewhere ? std::optional(epoch_) : std::nullopt;
}

void Focus::note_change(NodeId id) {
  const bool elsewhere = is_elsewhere(id);
  begin_epoch();
  nodes_[id].waits_at.reset();
  if (elsewhere) set_elsewhere(id, true);
}

}  // namespace friday
