#include "core/debug/client_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace friday {

// Whether two XSAVE areas have the same values, whether or not a part of them is marked as never used (XSTATE_BV, Intel
// SDM volume 1, section 13.4.2).
static bool same_values(std::span<const std::byte> one, std::span<const std::byte> other) {
  constexpr size_t kStateBits = 512, kBehind = kStateBits + 8;
  return one.size() == other.size() && one.size() >= kBehind &&
         std::ranges::equal(one.first(kStateBits), other.first(kStateBits)) &&
         std::ranges::equal(one.subspan(kBehind), other.subspan(kBehind));
}

// All checkpoints have a node that has ended in common, so what is stored in it would stay wherever the group goes.
Result<void> ClientView::check_can_change() {
  auto checked =
      node_->check_goes_on("its state can be read, not changed, and its functions cannot be called any more");
  if (!checked) refusal_ = checked.error();
  return checked;
}

Result<user_regs_struct> ClientView::registers(ThreadId thread) {
  if (auto it = edits_.find(thread); it != edits_.end() && it->second.wanted) return *it->second.wanted;
  return node_->registers(thread);
}

Result<void> ClientView::set_registers(ThreadId thread, const user_regs_struct& wanted) {
  FRIDAY_TRY_VOID(check_can_change());
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
  FRIDAY_TRY_VOID(check_can_change());
  edits_[thread].extended.emplace(state.begin(), state.end());
  return {};
}

Result<void> ClientView::write(Addr address, std::span<const std::byte> data) {
  FRIDAY_TRY_VOID(check_can_change());
  note_write(address, data.size());
  return node_->write(address, data);
}

void ClientView::note_stored() {
  stored_ = true;
  node_->note_altered();
}

bool ClientView::is_programs(Addr address) const {
  return !node_->is_fridays(address) && !node_->in_own_area(address.value);
}

// The node counts as altered at once, since a checkpoint may be made before anybody asks what was stored.
void ClientView::note_write(Addr address, size_t size) {
  if (size == 0) return;
  if (!is_programs(address) && !is_programs(address.plus(static_cast<int64_t>(size) - 1))) {
    workspace_written_ = true;
    return;
  }
  Write write{address, std::vector<std::byte>(size)};
  if (!node_->read(address, write.before)) return;
  writes_.push_back(std::move(write));
  node_->note_altered();
}

bool ClientView::is_on_dead_stack(const Write& write) {
  return std::ranges::any_of(node_->threads(), [&](const ThreadInfo& thread) {
    const auto registers = node_->registers(thread.id);
    const uint64_t live = registers ? registers->rsp - kRedZone : 0, low = write.address.value;
    return low < live && low + write.before.size() <= live && low >= live - kDeadStack;
  });
}

bool ClientView::take_settled() {
  std::vector<Write> kept;
  std::ranges::copy_if(writes_, std::back_inserter(kept), [&](const Write& write) { return is_on_dead_stack(write); });
  const bool stored = std::exchange(stored_, false) || kept.size() < writes_.size();
  writes_ = std::move(kept);
  return stored;
}

// gdb has written arguments and a return address onto the stack of a thread that is about to execute a call. The
// program does not read what lies there, but a replay that goes on has what it would have without the call.
void ClientView::keep_dead_stack(ThreadId thread, uint64_t stack_pointer) {
  auto dead = DeadStack::below(stack_pointer - kRedZone, *node_);
  if (!dead) return;
  for (; !writes_.empty(); writes_.pop_back()) {
    const Write& last = writes_.back();
    if (last.address < dead->low || last.address.value + last.before.size() > dead->end()) break;
    std::ranges::copy(last.before, dead->bytes.begin() + static_cast<long>(last.address.value - dead->low.value));
  }
  dead_stack_.try_emplace(thread, std::move(*dead));  // of several calls, before the first
}

// With `resuming`, a lowered stack pointer means that gdb calls a function, even if rip stays the same: gdb may call
// the function at whose start the thread stands.
Result<void> ClientView::apply(ThreadId thread, const Edit& edit, bool resuming) {
  if (edit.wanted) {
    if (resuming && edit.wanted->rsp < edit.before->rsp && !node_->call_began_at(thread)) {
      FRIDAY_TRY(from, node_->standing(thread));
      keep_dead_stack(thread, from.view.rsp);
      FRIDAY_TRY_VOID(node_->begin_call(thread, from, *edit.wanted));
    } else {
      FRIDAY_TRY_VOID(node_->set_registers(thread, *edit.wanted));
    }
  }
  const bool in_call = node_->call_began_at(thread);
  if (edit.wanted && !in_call) note_stored();
  if (!edit.extended) return {};
  FRIDAY_TRY(now, node_->extended_state(thread));
  if (same_values(now, *edit.extended)) return {};  // after a call gdb puts back all registers
  if (!in_call) note_stored();
  return node_->set_extended_state(thread, *edit.extended);
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
  for (const auto& [thread, dead] : std::exchange(dead_stack_, {}))
    FRIDAY_TRY_VOID(node_->write_raw(dead.low, dead.bytes));
  return lost;
}

}  // namespace friday
