#include "core/debug/client_view.h"

#include <utility>

namespace friday {

Result<user_regs_struct> ClientView::registers(ThreadId thread) {
  if (auto it = edits_.find(thread); it != edits_.end() && it->second.wanted) return *it->second.wanted;
  return node_->registers(thread);
}

Result<void> ClientView::set_registers(ThreadId thread, const user_regs_struct& wanted) {
  if (const user_regs_struct* home = node_->call_began_at(thread); home && same_registers(wanted, *home)) {
    edits_.erase(thread);
    return node_->end_call(thread);
  }
  Edit& edit = edits_[thread];
  if (!edit.before) {
    FRIDAY_TRY(now, node_->registers(thread));
    edit.before = now;
  }
  edit.wanted = wanted;
  if (same_registers(wanted, *edit.before)) edit.before = edit.wanted = std::nullopt;
  return {};
}

Result<std::vector<std::byte>> ClientView::extended_state(ThreadId thread) {
  if (auto it = edits_.find(thread); it != edits_.end() && it->second.extended) return *it->second.extended;
  return node_->extended_state(thread);
}

Result<void> ClientView::set_extended_state(ThreadId thread, std::span<const std::byte> state) {
  edits_[thread].extended.emplace(state.begin(), state.end());
  return {};
}

// With `resuming`, a lowered stack pointer means that gdb calls a function, even if rip stays the same: gdb may call
// the function at whose start the thread stands.
Result<void> ClientView::apply(ThreadId thread, const Edit& edit, bool resuming) {
  changed_ |= edit.wanted || edit.extended;
  if (edit.wanted) {
    if (resuming && edit.wanted->rsp < edit.before->rsp && !node_->call_began_at(thread)) {
      FRIDAY_TRY(from, node_->standing(thread));
      FRIDAY_TRY_VOID(node_->begin_call(thread, from, *edit.wanted));
    } else {
      FRIDAY_TRY_VOID(node_->set_registers(thread, *edit.wanted));
    }
  }
  if (edit.extended) return node_->set_extended_state(thread, *edit.extended);
  return {};
}

Result<void> ClientView::commit() {
  for (const auto& [thread, edit] : std::exchange(edits_, {})) FRIDAY_TRY_VOID(apply(thread, edit, true));
  return {};
}

Result<bool> ClientView::end_command() {
  for (const auto& [thread, edit] : std::exchange(edits_, {})) FRIDAY_TRY_VOID(apply(thread, edit, false));
  bool lost = false;
  for (auto& [tid, thread] : node_->threads_by_tid()) {
    if (!thread.detour) continue;
    FRIDAY_TRY_VOID(node_->end_call(ThreadId{thread.number}));
    lost = true;
  }
  return lost;
}

}  // namespace friday
