#include "core/debug/focus.h"

namespace friday {

void Focus::note_stop(const Stop& stop) {
  begin_epoch();
  here_ = stop.node;
  writer_ = stop.writer ? std::optional(stop.writer->node) : std::nullopt;
  using Kind = Stop::Kind;
  if (stop.kind == Kind::breakpoint || stop.kind == Kind::watch || stop.kind == Kind::step) started_.insert(stop.node);
}

void Focus::note_call(NodeId node) {
  begin_epoch();
  here_ = node;
}

void Focus::restart() {
  begin_epoch();
  here_ = session_.nodes().front();
  started_.clear();
  for (auto& [id, node] : nodes_) node.waits_at.reset();
}

bool Focus::has_started(NodeId id) {
  ReplayNode* node = session_.find(id);
  if (!node || !node->has_process()) return false;
  if (node->state() == NodeState::ended || started_.contains(id)) return true;
  if (session_.waits_at(id).value_or(1) == 0 || node->events_done() == 0) return false;
  started_.insert(id);  // the node is asked no more until it is started anew
  return true;
}

Result<ReplayNode*> Focus::started_node(NodeId id) {
  FRIDAY_TRY(node, session_.readable(id));
  if (!has_started(id))
    return fail(ErrorCode::node_not_started, "node {} has not started yet at this point of the replay", id);
  return node;
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
