// Handles the signals that stop a replayed thread: a trap by which the shim asks the core for something, a breakpoint,
// an access to watched memory, or a fault of the program itself, which its handler gets or of which it dies. Which
// threads run, and which are waited for, is decided in session.cc.
#include <sys/ptrace.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/base/files.h"
#include "core/replay/judging.h"
#include "core/replay/session.h"
#include "core/trace/calls.h"

namespace friday {

using shim::Control;

// What the recording says about the end of the node. `exit_in_trace` is not set, because finding it out reads the whole
// trace.
RecordedEnd ReplaySession::recorded_end(const ReplayNode& node) const {
  const format::FileHeader& header = node.reader().header();
  const NodeEnd& end = node.info().end;
  RecordedEnd out{.events = schedule_.event_count(node.id()), .how = end.how, .detail = end.detail};
  out.faulted = header.running == format::kFaulted;
  // In the shim the address is useless, because the shim executes other code at replay.
  if (out.faulted && !node.in_shim(header.faulted_at)) out.fault_at = header.faulted_at;
  return out;
}

std::optional<Stop> ReplaySession::handle_signal(ReplayNode& node, ReplayNode::Thread& thread, int signal) {
  number_of(node, thread);
  siginfo_t info{};  // for SIGTRAP it is not needed, and asking for it would slow down each breakpoint
  if (signal != SIGTRAP && ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0) return std::nullopt;
  switch (judge_signal(signal, info)) {
    case SignalStop::trap: {
      user_regs_struct r;
      if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
      return handle_trap(node, thread, r);
    }
    case SignalStop::fault: return handle_fault(node, thread, info);
    case SignalStop::refused: return answer_refused_call(node, thread, info);
    case SignalStop::dispatched: thread.deliver = signal; break;
    case SignalStop::stray: break;
  }
  resume_thread(node, thread);
  return std::nullopt;
}

// Whether the trap comes from an int3 that has been removed since: a breakpoint on several nodes was deleted at the
// stop of one of them, while another node had hit it but its stop had not been handled.
static bool is_late_trap(ReplayNode& node, const siginfo_t& info, const user_regs_struct& r) {
  uint8_t code[2];
  if (info.si_code != SI_KERNEL) return false;
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
  if (r.rip == node.control().trap_instruction + 1) return handle_shim_trap(node, thread);
  if (auto owners = node.breakpoints().hit(r)) {
    TracedProcess::set_registers(thread.tid, r);
    thread.at_breakpoint = true;
    thread.hit = {r, TracedProcess::register_changes()};
    Stop stop = stop_of(Stop::Kind::breakpoint, node, thread);
    stop.pc = node.patched_bytes().program_address(Addr{r.rip});
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
  if (const auto wanted = node.passages().hit(r)) {
    TracedProcess::set_registers(thread.tid, r);
    if (!*wanted) {
      resume_thread(node, thread);
      return std::nullopt;
    }
    Stop stop = stop_of(Stop::Kind::breakpoint, node, thread);
    stop.pc = Addr{r.rip};
    stop.owners = {kPassageOwner};
    return stop;
  }
  siginfo_t info;
  if (ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0) return std::nullopt;
  const bool late = is_late_trap(node, info, r);
  if (late) {
    r.rip--;
    TracedProcess::set_registers(thread.tid, r);
  }
  if (late || was_sent(SIGTRAP, info)) {
    resume_thread(node, thread);
    return std::nullopt;
  }
  // The program has an int3 in its own code, or has set the trap flag: it gets the signal.
  return handle_fault(node, thread, info);
}

// Where the program stands while the shim stores for it: at its system call, or at the first instruction of a handler.
static Addr place_in_shim(ReplayNode& node, const ReplayNode::Thread& thread) {
  const ThreadId id{thread.number};
  if (const uint64_t site = node.call_site(id)) return Addr{site};
  const auto registers = node.registers(id);
  return Addr{registers ? registers->rip : 0};
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
  stop.pc = node.in_shim(r.rip) ? place_in_shim(node, thread) : (*outcome)->pc;
  stop.hits = std::move((*outcome)->hits);
  return DebugTrap::hit;
}

// A node that somebody has altered is not compared.
std::optional<Stop> ReplaySession::compare_with_next_part(ReplayNode& node, ReplayNode::Thread& thread, ThreadId id) {
  const auto& nodes = recording_.nodes();
  const auto next = std::ranges::find_if(nodes, [&](const NodeInfo& other) { return other.continues == node.id(); });
  if (next == nodes.end() || next->problem || node.is_altered()) return std::nullopt;
  auto reader = TraceReader::open(recording_, next->id, TraceReader::Gaps::allow);
  if (!reader) return fail_node(node, id, reader.error().message);
  if (!reader->header().events || reader->lacks_image()) return std::nullopt;  // there is nothing to compare with
  const auto found = find_discontinuity(node, *reader);
  if (!found) return fail_node(node, id, found.error().message);
  if (!*found) return std::nullopt;
  (void)stop_group();
  return diverge(node, thread, explain_discontinuity(node, schedule_, id, next->id, **found));
}

std::optional<Stop> ReplaySession::handle_shim_trap(ReplayNode& node, ReplayNode::Thread& thread) {
  node.refresh_control();
  const Control& c = node.control();
  const ShimTrap trap = judge_shim_trap(c.trap_reason, c.trap_detail, thread.detour != nullptr);
  if (trap == ShimTrap::nonsense && thread.detour) return die(node, thread, SIGTRAP, Addr{c.trap_instruction});
  const ThreadId id{c.trap_thread};
  thread.number = c.trap_thread;
  switch (trap) {
    case ShimTrap::exited: return end_node(node, id, {NodeOutcome::How::exited, c.trap_detail & 0xff, ""});
    case ShimTrap::end_of_trace: {
      RecordedEnd recorded = recorded_end(node);
      recorded.exit_in_trace = recorded.how == NodeEnd::How::exit && node.reader().ended_by_exit();
      if (recorded.how == NodeEnd::How::continued)
        if (auto stop = compare_with_next_part(node, thread, id)) return stop;
      if (judge_end_of_trace(recorded) == EndOfTrace::ended)
        return end_node(node, id, {NodeOutcome::How::end_of_recording, 0, ""});
      (void)stop_group();
      return diverge(node, thread, explain_overrun(node, schedule_, id));
    }
    case ShimTrap::waits: return stop_of(Stop::Kind::event, node, thread);
    case ShimTrap::diverged: {
      (void)stop_group();
      return diverge(node, thread, explain(node, schedule_, c.divergence, id));
    }
    case ShimTrap::spin:
      if (auto expected = expect_spin(node); !expected) return fail_node(node, id, expected.error().message);
      break;
    case ShimTrap::object:
      if (auto offered = offer_object(node, c.object); !offered) return fail_node(node, id, offered.error().message);
      break;
    case ShimTrap::shared:
      if (auto stop = shared_changed(node, thread, c.trap_detail)) return stop;
      go_on(node, thread);
      return std::nullopt;
    case ShimTrap::mapping_begins:
      if (auto opened = node.watches().open_for_mapping_call(Addr{c.mapping_low}, Addr{c.mapping_high}); !opened)
        return fail_node(node, id, opened.error().message);
      go_on(node, thread);
      return std::nullopt;
    case ShimTrap::mapping_done: {
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
    case ShimTrap::dies: {
      const auto registers = node.registers(id);
      if (!registers) return fail_node(node, id, registers.error().message);
      return die(node, thread, c.trap_detail, Addr{registers->rip});
    }
    case ShimTrap::failed: {
      const bool is_errno = c.trap_detail < 0 && c.trap_detail > -4096;
      return fail_node(node, id,
                       fmt::format("{} ({})", std::string(c.text, strnlen(c.text, sizeof c.text)),
                                   is_errno ? errno_text(-c.trap_detail) : std::to_string(c.trap_detail)));
    }
    case ShimTrap::nonsense:
      return fail_node(node, id,
                       fmt::format("it reported a trap of the kind {} with the detail {}, which no shim does. The "
                                   "recording is damaged, or its code is not what was recorded. Copy it again",
                                   c.trap_reason, c.trap_detail));
  }
  resume_thread(node, thread);
  return std::nullopt;
}

namespace {

bool has_handler(pid_t tid, int signal) {
  auto status = read_file(fmt::format("/proc/{}/status", tid));
  constexpr std::string_view kKey = "SigCgt:";
  const size_t at = status ? status->find(kKey) : std::string::npos;
  const uint64_t caught = at == std::string::npos ? 0 : strtoull(status->c_str() + at + kKey.size(), nullptr, 16);
  return caught >> (signal - 1) & 1;
}

}  // namespace

// `info` is the siginfo of a signal that the kernel raised for an instruction of the thread.
std::optional<Stop> ReplaySession::handle_fault(ReplayNode& node, ReplayNode::Thread& thread, const siginfo_t& info) {
  const int signal = info.si_signo;
  user_regs_struct r;
  if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
  const Addr address{reinterpret_cast<uint64_t>(info.si_addr)};
  if (signal == SIGSEGV && node.watches().protects(address)) {
    // When the shim copies a recorded output to a watched page, the fault is in the shim, and emulating the store needs
    // the shim's registers instead of the program's.
    node.show_hardware(node.in_shim(r.rip));
    const bool in_program = !node.in_shim(r.rip);
    using Code = WatchSet::Code;
    const Code whose = !in_program ? Code::shim : thread.detour ? Code::called : Code::program;
    auto outcome = node.watches().on_fault(ThreadId{thread.number}, address, whose);
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
      stop.pc = in_program ? outcome->pc : place_in_shim(node, thread);
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
  const bool in_shim = node.in_shim(r.rip);
  const Fault fault{.signal = signal,
                    .code = info.si_code,
                    .in_shim = in_shim,
                    .probing = in_shim && node.probing(ThreadId{thread.number}),
                    .emulated = signal == SIGILL && node.carried_out_at(Addr{r.rip}),
                    .in_call = thread.detour != nullptr,
                    .has_handler = has_handler(thread.tid, signal)};
  if (is_delivered(fault)) {
    thread.deliver = signal;
    resume_thread(node, thread);
    return std::nullopt;
  }
  return die(node, thread, signal, node.patched_bytes().program_address(Addr{r.rip}));
}

// A thread is about to die of a signal. In a function that the debugger calls, that ends only the call. Otherwise it
// ends the node, or is a divergence if the recorded program did not die this way.
Stop ReplaySession::die(ReplayNode& node, const ReplayNode::Thread& thread, int signal, Addr pc) {
  Stop stop = stop_of(Stop::Kind::signal, node, thread);
  stop.signal = signal;
  stop.pc = pc;
  if (thread.detour) return stop;
  const RecordedEnd recorded = recorded_end(node);
  const Death death = judge_death(signal, pc, node.events_done(), recorded);
  if (death != Death::as_recorded) {
    (void)stop_group();
    return diverge(node, thread,
                   explain_death(node, schedule_, ThreadId{thread.number}, signal,
                                 death == Death::elsewhere ? std::optional(Addr{recorded.fault_at}) : std::nullopt));
  }
  (void)end_node(node, ThreadId{thread.number},
                 {NodeOutcome::How::signal, signal, fmt::format("at {:#x}", stop.pc.value)});
  return stop;
}

}  // namespace friday
