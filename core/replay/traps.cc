// Handles the signals that stop a replayed thread: a trap by which the shim asks the core for something, a breakpoint,
// an access to watched memory, or a fault of the program itself, which its handler gets or of which it dies. Which
// threads run, and which are waited for, is decided in session.cc.
#include <sys/ptrace.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/replay/confinement.h"
#include "core/replay/session.h"

namespace friday {

using shim::Control;

namespace {

// Whether the recorded program died of a fault of its own after its last event. Then the replay must not reach another
// event.
bool ended_by_fault(const ReplayNode& node) { return node.reader().header().running == format::kFaulted; }

// The address of the instruction that faulted. Returns 0 if it is unknown, or in the shim, which executes other code at
// replay.
uint64_t place_of_fault(const ReplayNode& node) {
  const uint64_t place = ended_by_fault(node) ? node.reader().header().faulted_at : 0;
  return node.in_shim(place) ? 0 : place;
}

}  // namespace

// Whether it matches the recording that the node dies of `signal` now. A program that was killed from outside, or whose
// recording was cut off, may run on after its last event, so any death there matches.
bool ReplaySession::dies_as_recorded(const ReplayNode& node, int signal) const {
  if (node.events_done() < schedule_.event_count(node.id())) return false;
  const NodeEnd& end = node.info().end;
  if (end.how == NodeEnd::How::signal) return end.detail == signal || end.detail == SIGKILL;
  return end.how != NodeEnd::How::exit && end.how != NodeEnd::How::replaced;
}

// Whether somebody on this machine sent the signal; false if the kernel raised it for something that the thread did.
static bool was_sent(const siginfo_t& info, int signal) { return info.si_signo == signal && info.si_code <= 0; }

std::optional<Stop> ReplaySession::handle_signal(ReplayNode& node, ReplayNode::Thread& thread, int signal) {
  number_of(node, thread);
  siginfo_t info;
  switch (signal) {
    case SIGTRAP: {
      user_regs_struct r;
      if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
      return handle_trap(node, thread, r);
    }
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL: return handle_fault(node, thread, signal);
    case SIGSYS:  // by the filter, or by Syscall User Dispatch for the shim's handler
      if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0) return std::nullopt;
      if (is_refused_call(info)) return answer_refused_call(node, thread, info);
      if (!was_sent(info, signal)) thread.deliver = SIGSYS;
      break;
    default: break;  // The shim delivers recorded signals by itself. This one was sent on this machine: drop it.
  }
  resume_thread(node, thread);
  return std::nullopt;
}

// Whether the trap comes from an int3 that has been removed since: a breakpoint on several nodes was deleted at the
// stop of one of them, while another node had hit it but its stop had not been handled.
static bool is_late_trap(ReplayNode& node, const ReplayNode::Thread& thread, const user_regs_struct& r) {
  siginfo_t info;
  uint8_t code[2];
  if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0 || info.si_code != SI_KERNEL) return false;
  if (!node.process().read(r.rip - 2, code, sizeof code)) return false;
  return code[1] != 0xcc && !(code[0] == 0xcd && code[1] == 3);
}

std::optional<Stop> ReplaySession::handle_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& r) {
  Stop watched;
  auto trapped = debug_trap(node, thread, r, watched);
  if (!trapped) return fail_node(node, ThreadId{thread.number}, trapped.error().message);
  switch (*trapped) {
    case DebugTrap::hit: return watched;
    case DebugTrap::in_vain: go_on(node, thread); return std::nullopt;
    case DebugTrap::not_ours: break;
  }
  if (r.rip == node.control().trap_instruction + 1) return handle_shim_trap(node, thread, r);
  if (auto owners = node.breakpoints().hit(r)) {
    TracedProcess::set_registers(thread.tid, r);
    thread.at_breakpoint = true;
    thread.hit = {r, TracedProcess::register_changes()};
    Stop stop = stop_of(Stop::Kind::breakpoint, node, thread);
    stop.pc = Addr{r.rip};
    stop.owners.assign(owners->begin(), owners->end());
    if (std::erase_if(stop.owners, is_spin)) {
      auto yields = yield_at_spin(node, thread, r);
      if (!yields) return fail_node(node, ThreadId{thread.number}, yields.error().message);
      if (*yields) stop.owners.clear();
    }
    if (!stop.owners.empty()) return stop;
    resume_thread(node, thread);
    return std::nullopt;
  }
  if (is_late_trap(node, thread, r)) {
    r.rip--;
    TracedProcess::set_registers(thread.tid, r);
    resume_thread(node, thread);
    return std::nullopt;
  }
  // The program has an int3 in its own code, or has set the trap flag: it gets the signal.
  return handle_fault(node, thread, SIGTRAP);
}

// Sets `stop` if it returns DebugTrap::hit.
Result<ReplaySession::DebugTrap> ReplaySession::debug_trap(ReplayNode& node, ReplayNode::Thread& thread,
                                                           user_regs_struct r, Stop& stop) {
  const bool in_program = !node.in_shim(r.rip);
  node.show_hardware(!in_program);
  auto outcome = node.watches().on_debug_trap(ThreadId{thread.number}, in_program);
  node.show_hardware(false);
  if (!outcome) return std::unexpected(outcome.error());
  if (!*outcome) return DebugTrap::not_ours;
  if ((*outcome)->hits.empty()) return DebugTrap::in_vain;
  if (node.breakpoints().in_pad(Addr{r.rip})) (void)node.breakpoints().leave_pad(ThreadId{thread.number});
  thread.at_breakpoint = TracedProcess::registers(thread.tid, r) && node.breakpoints().contains(Addr{r.rip});
  stop = stop_of(Stop::Kind::watch, node, thread);
  const std::optional<Addr> moved = node.moved_from(r.rip);
  stop.pc = moved ? *moved : node.in_shim(r.rip) ? Addr{node.call_site(ThreadId{thread.number})} : (*outcome)->pc;
  stop.hits = std::move((*outcome)->hits);
  return DebugTrap::hit;
}

std::optional<Stop> ReplaySession::handle_shim_trap(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct&) {
  node.refresh_control();
  const Control& c = node.control();
  const ThreadId id{c.trap_thread};
  thread.number = c.trap_thread;
  switch (c.trap_reason) {
    case shim::kTrapExit: return end_node(node, id, {NodeOutcome::How::exited, c.trap_detail & 0xff, ""});
    case shim::kTrapEndOfTrace:
      if ((node.info().end.how == NodeEnd::How::exit && node.reader().ended_by_exit()) || ended_by_fault(node)) {
        (void)stop_group();
        return diverge(node, thread, explain_overrun(node, schedule_, id));
      }
      return end_node(node, id, {NodeOutcome::How::end_of_recording, 0, ""});
    case shim::kTrapStopEvent: return stop_of(Stop::Kind::event, node, thread);
    case shim::kTrapDiverged: {
      (void)stop_group();
      return diverge(node, thread, explain(node, schedule_, c.divergence, id));
    }
    case shim::kTrapSpin:
      if (auto expected = expect_spin(node); !expected) return fail_node(node, id, expected.error().message);
      break;
    case shim::kTrapObject:
      if (auto offered = offer_object(node, c.object); !offered) return fail_node(node, id, offered.error().message);
      break;
    case shim::kTrapShared:
      if (auto stop = shared_changed(node, thread, c.trap_detail)) return stop;
      go_on(node, thread);
      return std::nullopt;
    case shim::kTrapMappingBegins:
      if (auto opened = node.watches().open_for_mapping_call(Addr{c.mapping_low}, Addr{c.mapping_high}); !opened)
        return fail_node(node, id, opened.error().message);
      go_on(node, thread);
      return std::nullopt;
    case shim::kTrapMappingDone: {
      auto hits = node.watches().mapping_call_done(Addr{c.mapping_low}, Addr{c.mapping_high});
      node.breakpoints().forget_gone(Addr{c.mapping_low}, Addr{c.mapping_high});
      if (!hits) return fail_node(node, id, hits.error().message);
      if (auto flushed = node.flush_watches(); !flushed) return fail_node(node, id, flushed.error().message);
      if (hits->empty()) {
        go_on(node, thread);
        return std::nullopt;
      }
      Stop stop = stop_of(Stop::Kind::watch, node, thread);
      stop.pc = Addr{node.call_site(id)};
      stop.hits = std::move(*hits);
      return stop;
    }
    case shim::kTrapDies: {
      const auto registers = node.registers(id);
      if (!registers) return fail_node(node, id, registers.error().message);
      return die(node, thread, c.trap_detail, Addr{registers->rip});
    }
    case shim::kTrapFailed:
      return fail_node(node, id,
                       fmt::format("{} ({})", std::string(c.text, strnlen(c.text, sizeof c.text)), c.trap_detail));
    default: break;
  }
  resume_thread(node, thread);
  return std::nullopt;
}

std::optional<Stop> ReplaySession::handle_fault(ReplayNode& node, ReplayNode::Thread& thread, int signal) {
  siginfo_t info;
  user_regs_struct r;
  if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0 || !TracedProcess::registers(thread.tid, r))
    return std::nullopt;
  if (was_sent(info, signal)) {
    resume_thread(node, thread);
    return std::nullopt;
  }
  const Addr address{reinterpret_cast<uint64_t>(info.si_addr)};
  const std::optional<Addr> moved = node.moved_from(r.rip);  // if set, the instruction is the program's
  if (signal == SIGSEGV && node.watches().protects(address)) {
    // When the shim copies a recorded output to a watched page, the fault is in the shim, and emulating the store needs
    // the shim's registers instead of the program's.
    node.show_hardware(node.in_shim(r.rip));
    const bool in_program = !node.in_shim(r.rip);
    auto outcome = node.watches().on_fault(ThreadId{thread.number}, address, in_program);
    node.show_hardware(false);
    if (!outcome) return fail_node(node, ThreadId{thread.number}, outcome.error().message);
    if (outcome->how != FaultOutcome::How::not_ours) {
      if (outcome->hits.empty()) {
        if (auto flushed = outcome->patched ? node.flush_watches() : Result<void>(); !flushed)
          return fail_node(node, ThreadId{thread.number}, flushed.error().message);
        go_on(node, thread);
        return std::nullopt;
      }
      Stop stop = stop_of(Stop::Kind::watch, node, thread);
      stop.pc = in_program ? outcome->pc : moved ? *moved : Addr{node.call_site(ThreadId{thread.number})};
      stop.hits = std::move(outcome->hits);
      // If a breakpoint stands at the next instruction, it is hit when the thread resumes.
      return stop;
    }
  }
  // The fault is the program's own. If it happened in a pad, move the thread to the original instruction.
  if (node.breakpoints().in_pad(Addr{r.rip})) {
    (void)node.breakpoints().leave_pad(ThreadId{thread.number});
    TracedProcess::registers(thread.tid, r);
  }
  // An illegal instruction that the shim put in place of one that it emulates: the shim's handler gets the signal.
  if (signal == SIGILL && node.carried_out_at(Addr{r.rip})) {
    thread.deliver = signal;
    resume_thread(node, thread);
    return std::nullopt;
  }
  uint64_t caught = 0;
  if (FILE* status = fopen(fmt::format("/proc/{}/status", thread.tid).c_str(), "re")) {
    char line[256];
    while (fgets(line, sizeof line, status))
      if (sscanf(line, "SigCgt: %lx", &caught) == 1) break;
    fclose(status);
  }
  // The shim reads through pointers of the program and handles the fault itself if one is invalid.
  const bool in_shim = node.in_shim(r.rip) && !moved;
  const bool expected = signal != SIGILL && in_shim && node.probing(ThreadId{thread.number});
  // A program that single-steps itself steps into the shim, whose handler hides that from the program.
  const bool stepped = signal == SIGTRAP && info.si_code == TRAP_TRACE;
  if (expected || (!thread.detour && (!in_shim || stepped) && (caught >> (signal - 1) & 1))) {
    thread.deliver = signal;
    resume_thread(node, thread);
    return std::nullopt;
  }
  return die(node, thread, signal, moved.value_or(Addr{r.rip}));
}

// A thread is about to die of a signal. In a function that the debugger calls, that ends only the call. Otherwise it
// ends the node, or is a divergence if the recorded program did not die this way.
Stop ReplaySession::die(ReplayNode& node, const ReplayNode::Thread& thread, int signal, Addr pc) {
  Stop stop = stop_of(Stop::Kind::signal, node, thread);
  stop.signal = signal;
  stop.pc = pc;
  if (thread.detour) return stop;
  const bool recorded = dies_as_recorded(node, signal);
  const uint64_t place = recorded ? place_of_fault(node) : 0;
  if (!recorded || (place && place != stop.pc.value)) {
    (void)stop_group();
    return diverge(node, thread,
                   explain_death(node, schedule_, ThreadId{thread.number}, signal,
                                 place ? std::optional(Addr{place}) : std::nullopt));
  }
  (void)end_node(node, ThreadId{thread.number},
                 {NodeOutcome::How::signal, signal, fmt::format("at {:#x}", stop.pc.value)});
  return stop;
}

}  // namespace friday
