// Function calls that the debugger makes in a node: what the thread was doing is kept, and put back afterwards. Running
// them is calls.cc.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "core/replay/node.h"

namespace friday {

using shim::ThreadArea;

const user_regs_struct* ReplayNode::call_began_at(ThreadId id) {
  Thread* thread = thread_of(id);
  return thread && thread->detour ? &thread->detour->view : nullptr;
}

// Call before the debugger makes a stopped thread execute something else, so that what has stopped it is not lost: an
// instruction that has raised a signal raises it again, and traps of the shim and of debug registers are handled
// afterwards. Fails if the kernel tells only now what has happened.
Result<void> ReplayNode::put_off_stop(Thread& thread) {
  if (thread.deliver && undo_fault(thread, W_STOPCODE(thread.deliver))) thread.deliver = 0;
  if (thread.held && undo_fault(thread, *thread.held)) thread.held.reset();
  user_regs_struct r;
  const bool traps = thread.held == W_STOPCODE(SIGTRAP) && TracedProcess::registers(thread.tid, r) &&
                     (r.rip == control_.trap_instruction + 1 || thread.debug_hits);
  if (!thread.deliver && (!thread.held || traps)) return {};
  return fail(
      ErrorCode::unsupported,
      "thread {} of node {} cannot call a function here, because what it has just done is not handled yet: step "
      "or continue first",
      thread.number, info_.id);
}

Result<void> ReplayNode::begin_call(ThreadId id, const Standing& from, const user_regs_struct& wanted) {
  FRIDAY_TRY(thread, stopped_thread(id));
  FRIDAY_TRY_VOID(put_off_stop(*thread));
  note_altered();
  FRIDAY_TRY(now, hardware(*thread));
  FRIDAY_TRY(extended, extended_state(id));
  const auto at = area_address(id.value);
  const auto a = from.area ? from.area : area(id.value);
  if (!at || !a) return std::unexpected(process_gone(info_.id));
  uint64_t back = 0;
  (void)process_->read(wanted.rsp, &back, sizeof back);
  thread->detour = std::make_unique<Thread::Detour>(
      Thread::Detour{*thread, now, from.view, *a, std::move(extended), back, wanted.rsp + 8});
  const bool has_traps = std::ranges::any_of(threads_, [](const auto& each) { return each.second.held.has_value(); });
  if (has_traps && refresh_control()) thread->detour->traps = control_;
  static_cast<ThreadSnapshot&>(*thread) = {.number = thread->number};
  FRIDAY_TRY_VOID(count_stops(false));
  ThreadArea changed = *a;
  changed.native = 1;
  changed.frame = nullptr;
  if (in_shim(now.rip)) changed.stack_top = (now.rsp - 1024) & ~15ull;
  if (!process_->write(*at, &changed, offsetof(ThreadArea, pending_head)))
    return std::unexpected(process_gone(info_.id));
  user_regs_struct start = wanted;
  start.orig_rax = kNoCall;
  start.fs_base = now.fs_base, start.gs_base = now.gs_base;
  if (!TracedProcess::set_registers(thread->tid, start)) return std::unexpected(process_gone(info_.id));
  return {};
}

Result<void> ReplayNode::count_stops(bool on) {
  breakpoints_.count_passages(on);
  watches_.count_changes(on);
  return on ? passages_.go_on() : passages_.pause();
}

Result<void> ReplayNode::end_call(ThreadId id) {
  FRIDAY_TRY(thread, stopped_thread(id));
  if (!thread->detour) return {};
  auto detour = std::move(thread->detour);
  const bool is_last = std::ranges::none_of(threads_, [](const auto& each) { return !!each.second.detour; });
  if (is_last) FRIDAY_TRY_VOID(count_stops(true));
  user_regs_struct back = detour->hardware;
  TracedProcess::end_interrupted_call(back);
  static_cast<ThreadSnapshot&>(*thread) = detour->thread;
  if (const auto& then = detour->traps) {
    using shim::Control;
    if (!set_control(&Control::trap_reason, then->trap_reason) ||
        !set_control(&Control::trap_thread, then->trap_thread) ||
        !set_control(&Control::trap_detail, then->trap_detail) ||
        !set_control(&Control::mapping_low, then->mapping_low) ||
        !set_control(&Control::mapping_high, then->mapping_high))
      return std::unexpected(process_gone(info_.id));
  }
  // Loop sites that the function passed do not count.
  constexpr size_t loops = offsetof(ThreadArea, loops_left);
  const auto at = area_address(id.value);
  if (!at || !process_->write(*at, &detour->area, offsetof(ThreadArea, pending_head)) ||
      !process_->write(*at + loops, &detour->area.loops_left, offsetof(ThreadArea, loops_next) - loops) ||
      !TracedProcess::set_registers(thread->tid, back))
    return std::unexpected(process_gone(info_.id));
  return set_extended_state(id, detour->extended);
}

}  // namespace friday
