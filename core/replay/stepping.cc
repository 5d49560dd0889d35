// ReplaySession::step(): one instruction of one thread, for gdb.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "core/replay/session.h"

namespace friday {

namespace {
constexpr BreakpointOwner kStepOwner{BreakpointOwner::Kind::internal, 1};
}

Result<Stop> ReplaySession::step(NodeId id, ThreadId thread_id) {
  FRIDAY_TRY(found, readable(id));
  ReplayNode& node = *found;
  FRIDAY_TRY_VOID(node.check_goes_on("there is nothing left to step"));
  ReplayNode::Thread* thread = node.thread_of(thread_id);
  if (!thread) return fail(ErrorCode::not_found, "node {} has no thread {}", id, thread_id.value);
  FRIDAY_TRY(before, node.registers(thread_id));
  user_regs_struct hardware;
  if (!TracedProcess::registers(thread->tid, hardware))
    return fail(ErrorCode::component_died, "node {}: its process is gone", id);
  const bool parked = !thread->detour && node.in_shim(hardware.rip);
  const shim::Patch* planted = parked || thread->detour ? nullptr : node.planted_at(Addr{hardware.rip});
  if (!parked && !planted) {
    FRIDAY_TRY_VOID(node.breakpoints().step_one(thread_id));
    thread->at_breakpoint = false;
    if (!TracedProcess::registers(thread->tid, hardware))
      return fail(ErrorCode::component_died, "node {}: its process is gone", id);
    if (thread->held) {
      // The instruction faulted: either it is a store to a watched page, which handle() carries out, or the program
      // gets a signal.
      const int status = *std::exchange(thread->held, std::nullopt);
      stepped_ = thread->tid;
      auto stop = handle(thread->tid, status);
      stepped_ = 0;
      if (stop) return finish(std::move(*stop));
      if (!TracedProcess::registers(thread->tid, hardware))
        return fail(ErrorCode::component_died, "node {}: its process is gone", id);
    }
    if (thread->debug_hits) {
      Stop watched;
      FRIDAY_TRY(trapped, debug_trap(node, *thread, hardware, watched));
      if (trapped == DebugTrap::hit)
        if (auto told = tell_sharers(node, shared_watches_.judge(std::move(watched), node)))
          return finish(std::move(*told));
    }
    if (thread->detour || (!thread->deliver && !node.in_shim(hardware.rip))) {
      thread->at_breakpoint = node.breakpoints().contains(Addr{hardware.rip});
      Stop stop = stop_of(Stop::Kind::step, node, *thread);
      stop.pc = Addr{hardware.rip};
      return stop;
    }
  }
  // The instruction is a system call, or one that the shim emulates, or the program gets a signal: run to the
  // instruction that follows it in the program, past the signal handler. Meanwhile the other nodes run in the recorded
  // order.
  uint64_t back;
  const shim::Patch* patch = parked ? node.loop_at(Addr{before.rip}) : node.patch_by_stub(hardware.rip);
  if (planted) back = planted->start + planted->length;
  else if (patch) back = patch->resume ? patch->start + patch->length : patch->syscall + 2;
  else back = before.rip;
  FRIDAY_TRY_VOID(node.breakpoints().insert(Addr{back}, kStepOwner));
  for (;;) {
    auto stop = run();
    const bool mine = stop && stop->kind == Stop::Kind::breakpoint && stop->node == id && stop->pc.value == back;
    if (mine && stop->thread != thread_id && stop->owners.size() == 1) continue;
    (void)node.breakpoints().remove(Addr{back}, kStepOwner);
    if (!stop) return stop;
    if (mine && stop->thread == thread_id) {
      std::erase(stop->owners, kStepOwner);
      if (stop->owners.empty()) stop->kind = Stop::Kind::step;
    }
    return stop;
  }
}

}  // namespace friday
