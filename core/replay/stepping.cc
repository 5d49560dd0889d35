// ReplaySession::step(): one instruction of one thread, for gdb.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "core/replay/session.h"

namespace friday {

namespace {

constexpr BreakpointOwner kStepOwner{BreakpointOwner::Kind::internal, 1};

// Where the program goes on behind what the shim does at a patched site that begins with that. Behind a call of a
// waiting loop that is the function.
uint64_t behind(const shim::Patch& site) {
  if (shim::is_planted(site.kind)) return site.start + site.length;
  if (site.kind == shim::kSiteAfter) return site.syscall + kCallLength;
  const auto first = decode_instruction(Addr{site.start}, std::as_bytes(std::span(site.original, site.length)));
  if (first && site.kind == shim::kSiteLoop && site.is_call())
    return first->next() + static_cast<uint64_t>(first->decoded.raw.imm[0].value.s);
  return site.start + (first ? first->decoded.length : site.length);
}

// Reads the processor's registers. Behind a copy of the program's instructions stands a jump of Friday's, which is not
// a step of the program's: a thread that is there is moved to where it leads. False if the process is gone.
bool read_settled(ReplayNode& node, pid_t tid, user_regs_struct& r) {
  if (!TracedProcess::registers(tid, r)) return false;
  const PatchedBytes& patched = node.patched_bytes();
  if (!patched.ends_copy(Addr{r.rip})) return true;
  r.rip = patched.executed_at(patched.program_address(Addr{r.rip})).value;
  return TracedProcess::set_registers(tid, r);
}

}  // namespace

Result<Stop> ReplaySession::step(NodeId id, ThreadId thread_id, const std::function<bool(const Stop&)>& passes) {
  FRIDAY_TRY(found, readable(id));
  ReplayNode& node = *found;
  FRIDAY_TRY_VOID(node.check_goes_on("there is nothing left to step"));
  at_.moved = true;
  moves_++;
  ReplayNode::Thread* thread = node.thread_of(thread_id);
  if (!thread) return fail(ErrorCode::not_found, "node {} has no thread {}", id, thread_id.value);
  FRIDAY_TRY(before, node.registers(thread_id));
  user_regs_struct hardware;
  if (!read_settled(node, thread->tid, hardware)) return std::unexpected(process_gone(id));
  if (!thread->detour && node.in_shim(hardware.rip)) {
    // In a system call, behind which the program goes on, or giving its turn away at a loop site.
    const bool in_call = node.call_site(thread_id) + kCallLength == before.rip;
    const shim::Patch* site = in_call ? nullptr : node.site_at(Addr{before.rip});
    return run_step(node, *thread, Addr{site ? behind(*site) : before.rip}, passes);
  }
  if (const shim::Patch* site = thread->detour ? nullptr : node.site_at(Addr{hardware.rip})) {
    thread->at_breakpoint = node.breakpoints().contains(Addr{hardware.rip});  // it is left, not reported
    return run_step(node, *thread, Addr{behind(*site)}, passes);
  }
  FRIDAY_TRY(stopped, step_in_place(node, *thread, Addr{before.rip}));
  if (stopped) return std::move(*stopped);
  // The instruction is a system call that has no stub, or the program gets a signal.
  if (!TracedProcess::registers(thread->tid, hardware)) return std::unexpected(process_gone(id));
  return run_step(node, *thread, Addr{thread->deliver == SIGSYS ? hardware.rip : before.rip}, passes);
}

// Lets the processor execute the instruction at `pc`, where the thread stands. None if that was not enough: the thread
// has a signal to deliver, or is in the shim.
Result<std::optional<Stop>> ReplaySession::step_in_place(ReplayNode& node, ReplayNode::Thread& thread, Addr pc) {
  const ThreadId id{thread.number};
  user_regs_struct hardware;
  if (!TracedProcess::registers(thread.tid, hardware)) return std::unexpected(process_gone(node.id()));
  const uint64_t place = hardware.rip;
  FRIDAY_TRY_VOID(node.breakpoints().step_one(id));
  thread.at_breakpoint = false;
  if (!read_settled(node, thread.tid, hardware)) return std::unexpected(process_gone(node.id()));
  if (!thread.held && hardware.rip != place && node.patched_bytes().program_address(Addr{hardware.rip}) == pc) {
    // What was stepped is the jump to the copy of the instruction.
    FRIDAY_TRY_VOID(node.breakpoints().step_one(id));
    if (!read_settled(node, thread.tid, hardware)) return std::unexpected(process_gone(node.id()));
  }
  if (thread.held) {
    // The instruction faulted: either it is a store to a watched page, which handle() carries out, or the program
    // gets a signal.
    const int status = *std::exchange(thread.held, std::nullopt);
    stepped_ = thread.tid;
    auto stop = handle(thread.tid, status);
    stepped_ = 0;
    if (stop) return finish(std::move(*stop));
    if (!read_settled(node, thread.tid, hardware)) return std::unexpected(process_gone(node.id()));
  }
  if (thread.debug_hits) {
    Stop watched;
    FRIDAY_TRY(trapped, debug_trap(node, thread, hardware, watched));
    if (trapped == DebugTrap::hit)
      if (auto told = tell_sharers(node, shared_watches_.judge(std::move(watched), node)))
        return finish(std::move(*told));
  }
  if (!thread.detour && (thread.deliver || node.in_shim(hardware.rip))) return std::optional<Stop>{};
  thread.at_breakpoint = node.breakpoints().contains(Addr{hardware.rip});
  Stop stop = stop_of(Stop::Kind::step, node, thread);
  stop.pc = node.patched_bytes().program_address(Addr{hardware.rip});
  return stop;
}

// Runs the group until the thread arrives at `back`, the instruction that follows in the program what the shim does, or
// a signal's handler. Meanwhile the other nodes run in the recorded order.
Result<Stop> ReplaySession::run_step(ReplayNode& node, const ReplayNode::Thread& thread, Addr back,
                                     const std::function<bool(const Stop&)>& passes) {
  const ThreadId thread_id{thread.number};
  const NodeId id = node.id();
  FRIDAY_TRY_VOID(node.breakpoints().insert(back, kStepOwner));
  for (;;) {
    auto stop = run();
    const bool mine = stop && stop->kind == Stop::Kind::breakpoint && stop->node == id && stop->pc == back;
    if (mine && stop->thread != thread_id && stop->owners.size() == 1) continue;
    const bool of_another = stop && (stop->node != id || stop->thread != thread_id);
    if (of_another && passes && passes(*stop)) continue;
    (void)node.breakpoints().remove(back, kStepOwner);
    if (!stop) return stop;
    if (mine && stop->thread == thread_id) {
      std::erase(stop->owners, kStepOwner);
      if (stop->owners.empty()) stop->kind = Stop::Kind::step;
    }
    return stop;
  }
}

}  // namespace friday
