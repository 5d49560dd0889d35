// The shim's own handlers, which stand where the program's would: one notes a signal of the program's for the next call
// boundary, others carry out what an instruction could not do by itself, send a thread into the shim's entry for a call
// that no patch caught, or look whether a thread turns in circles. They run in the middle of anything, the shim
// included.
#include <linux/signal.h>

#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signal_frame.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

void install(int signal, void (*handler)(int, void*, void*), uint64_t flags, uint64_t mask);
void on_step(int signal, void* info, void* context);
void leave(UserContext* u, ThreadArea* area);

SpinPoint point_of(const SignalContext& c) {
  return {c.rip, c.eflags & kSpinFlags,
          c.rsp, c.rax,
          c.rbx, c.rcx,
          c.rdx, c.rsi,
          c.rdi, c.rbp,
          c.r8,  c.r9,
          c.r10, c.r11,
          c.r12, c.r13,
          c.r14, c.r15};
}

// In a handler: the thread goes on under the trap flag, if it may be turning in circles.
void look_for_spin(ThreadArea* area, UserContext* u) {
  if (u->context.eflags & kTrapFlag) return;  // the program's own, which takes the signal after each instruction
  loops_ask(area);
  if (!spin_begin(area, point_of(u->context))) {
    spin_tell(area, u->context.rip);
    if (signals_pending(area)) spin_look_later(area);
    return;
  }
  install(5, on_step, 0, 0);
  u->mask &= ~bit(5);  // a trap that is blocked kills
  u->context.eflags |= kTrapFlag;
}

// A call that is about to be made is not.
void abort_call(SignalContext& c) {
  if (c.rip >= (uint64_t)friday_interruptible_start && c.rip <= (uint64_t)friday_interruptible_call)
    c.rip = (uint64_t)friday_interruptible_abort;
}

bool in_shim(uint64_t rip) {
  return (rip >= control.text_low && rip < control.text_high) ||
         (rip >= kVdsoAddress && rip < kVdsoAddress + 0x10000000);
}

// The shim's handler for everything the program catches.
void on_signal(int signal, void* info, void* context) {
  ThreadArea* area = me();
  SignalContext& c = ((UserContext*)context)->context;
  // Nothing is recorded any more: the thread may make no call for long.
  if (control.mode == kModePassThrough && !area->frame && !signals_pending(area) && !in_shim(c.rip)) {
    CallFrame frame = {};
    copy_registers(&frame, c);
    enter_handler(&frame, area, signal, info, nullptr, (uint8_t*)c.fpstate);
    copy_registers(c, &frame);
    ((UserContext*)context)->mask = resting_mask(area);
    return;
  }
  // Another one may come meanwhile, of those that are never blocked.
  uint32_t tail = area->pending_tail;
  while (tail - area->pending_head < 16 && !__atomic_compare_exchange_n(&area->pending_tail, &tail, tail + 1, false,
                                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  if (tail - area->pending_head < 16) {
    auto& slot = area->pending[tail % 16];
    slot.number = (uint32_t)signal;
    memcpy(slot.info, info, sizeof slot.info);
  }
  ((UserContext*)context)->mask |= caught();
  abort_call(c);
  area->look_delay = 0;
  if (!area->frame) look_for_spin(area, (UserContext*)context);
}

// The shim read where a pointer of the program leads, and it leads nowhere (runtime.h, probed()).
bool leave_probe(const ThreadArea* area, SignalContext& c) {
  if (!area->probe || !in_shim(c.rip)) return false;
  const Probe& p = *(const Probe*)area->probe;
  c.rbx = p.rbx, c.rbp = p.rbp, c.r12 = p.r12, c.r13 = p.r13, c.r14 = p.r14, c.r15 = p.r15;
  c.rsp = p.rsp, c.rip = p.rip, c.rax = 1;
  return true;
}

uint64_t exit_signals;  // by which children tell of their end, other than SIGCHLD

// Whether the kernel raised the signal for the instruction that was interrupted, of one that may as well tell of a
// child's end: there the siginfo_t has pid and user where a fault's has its address.
bool raised_there(int signal, const void* info, const SignalContext& c) {
  const uint64_t address = ((const uint64_t*)info)[2];
  const bool of_page = c.trapno == 14 && c.cr2 == address, unaligned = c.trapno == 17 && address == 0;
  return signal == 11 ? of_page : signal == 7 ? of_page || unaligned : address == c.rip;
}

// By somebody, not raised by the kernel for what an instruction did.
bool was_sent(int signal, void* info, const SignalContext& c) {
  if (signals_unmask(info)) return true;
  const int code = ((const int*)info)[2];
  if (code <= 0) return true;
  return code <= CLD_CONTINUED && exit_signals & bit(signal) && !raised_there(signal, info, c);
}

// The mask that holds where a handler has interrupted the thread: a call may wait with one of its own.
uint64_t mask_at(const ThreadArea* area, const SignalContext& c) {
  uint64_t mask = area->waited ? area->call_mask : area->signal_mask;
  constexpr uint64_t kCallLength = 2;
  if (area->frame && c.rip == (uint64_t)friday_interruptible_call + kCallLength)
    probed([&] {
      if (const uint64_t* wanted = mask_of(area->frame)) mask = *wanted;
    });
  return mask;
}

// One of those that the shim has to see (kForcedSignals), or that are like them: what the kernel would have done with
// it.
void on_sent(int signal, void* info, void* context) {
  ThreadArea* area = me();
  UserContext* u = (UserContext*)context;
  const bool blocked = mask_at(area, u->context) & kForcedSignals & bit(signal);
  if (!blocked && actions[signal].handler > 1) return on_signal(signal, info, context);
  area->poked = 1;  // a call of the program's that this one interrupts is made again
  if (blocked && signal != kPokeSignal) {
    held_add(area, signal, info);
    return abort_call(u->context);
  }
  if (blocked) u->mask |= bit(signal);
  else if (actions[signal].handler == 1) return;
  else let_it_kill(signal);
  signals_send_own(signal, info, false);  // once more, as it came
}

// Whether the page was there is the kernel's business: it depends on huge pages, on swapping, and on who else uses a
// file. So the bit that says it tells instead whether there is a mapping that forbids the access.
uint64_t error_code(uint64_t err, const void* info) {
  constexpr int kMapError = 1;  // SEGV_MAPERR
  constexpr uint64_t kPresent = 1;
  const int* words = (const int*)info;
  return (err & ~kPresent) | (words[0] == 11 && words[2] != kMapError ? kPresent : 0);
}

// The program single-steps itself, and the instruction that has just been executed is the shim's. What is executed in
// place of the program's own is one step with it: its handler could not return into the middle of that. In the shim
// itself the flag waits until the program goes on (signals_step_on).
bool hide_step(int signal, const void* info, SignalContext& c) {
  constexpr int kTrace = 2;  // TRAP_TRACE
  if (signal != 5 || ((const int*)info)[2] != kTrace) return false;
  if (!in_shim(c.rip)) return in_stub(c.rip);
  c.eflags &= ~kTrapFlag;
  me()->stepped = 1;
  return true;
}

// A synchronous fault: of the shim's own reading, or the program's, which its handler gets at once and which otherwise
// kills as if nobody had been here: the same instruction faults again.
void on_fault(int signal, void* info, void* context) {
  SignalContext& c = ((UserContext*)context)->context;
  if (was_sent(signal, info, c)) return on_sent(signal, info, context);
  if (hide_step(signal, info, c)) return;
  ThreadArea* area = me();
  if (leave_probe(area, c)) return;
  const uint64_t at = loop_original(c.rip);
  if (actions[signal].handler <= 1 || area->signal_mask & bit(signal)) {
    uint64_t rip = at;
    if (ends_as_child(area, &c.rax, &rip)) {
      c.rip = rip;
      return;
    }
    let_it_kill(signal);
    note_fault(signal, at);
    return;
  }
  CallFrame frame = {};
  copy_registers(&frame, c);
  frame.rip = at;
  // The address is what the last page fault left, unless this is one.
  const bool page_fault = c.trapno == 14;
  uint64_t fault[3] = {page_fault ? error_code(c.err, info) : c.err, c.trapno, page_fault ? c.cr2 : 0};
  // The kernel restores extended state from its own frame on our return.
  if (!enter_handler(&frame, area, signal, info, fault, (uint8_t*)c.fpstate)) return;
  copy_registers(c, &frame);
  // At replay the kernel's mask stays empty: the program's own is only kept in the area.
  if (control.mode != kModeReplay) ((UserContext*)context)->mask = resting_mask(area);
}

void on_illegal(int signal, void* info, void* context) {
  SignalContext& c = ((UserContext*)context)->context;
  if (was_sent(signal, info, c)) return on_sent(signal, info, context);
  if (writes_gs(c.rip)) {
    if (can_leave(me())) {
      trace_end(kEndRefused, 0, kUsesGs);
      return leave((UserContext*)context, me());
    }
    if (control.mode == kModeReplay) replay_end_of_trace();  // there the shim left
  }
  CallFrame frame = {};
  copy_registers(&frame, c);
  if (emulate_instruction(&frame, (const uint8_t*)c.fpstate)) copy_registers(c, &frame);
  else on_fault(signal, info, context);
}

// An instruction of a loop that may be idle has been executed (spin.cc).
void on_step(int signal, void* info, void* context) {
  SignalContext& c = ((UserContext*)context)->context;
  if (was_sent(signal, info, c)) return on_sent(signal, info, context);
  const Spin found = spin_step(point_of(c));
  if (found == Spin::searching) return;
  ThreadArea* area = me();
  c.eflags &= ~kTrapFlag;
  ((UserContext*)context)->mask = resting_mask(area);
  install_for(signal);
  if (found == Spin::none) {
    spin_tell(area, c.rip);
    if (signals_pending(area)) spin_look_later(area);
    return;
  }
  CallFrame frame = {};
  copy_registers(&frame, c);
  enter_yield(&frame, area, kYieldSpin);
  copy_registers(c, &frame);
}

// The shim's last handler: what it returns to is the program alone (leave.cc).
void leave(UserContext* u, ThreadArea* area) {
  const uint64_t everything = ~0ull;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, 0, 8);
  if (CallFrame* frame = area->frame) {
    find_site(frame);
    copy_registers(u->context, frame);
    u->context.rip = frame->site;
  }
  for (int signal = 1; signal <= 64; signal++)
    if (signal != 9 && signal != 19) native(sys::rt_sigaction, signal, &actions[signal], 0, 8);
  while (signals_pending(area)) {
    uint8_t info[128];
    const int signal = take_pending(area, info);
    native(sys::rt_tgsigqueueinfo, native(sys::getpid), native(sys::gettid), signal, info);
  }
  held_release(area, 0);
  u->mask = area->signal_mask;
  u->stack_pointer = area->altstack[0];
  u->stack_flags = (int32_t)(area->altstack[2] ? area->altstack[1] : kStackOff);
  u->stack_size = area->altstack[2];
  leave_process(area);
}

// A thread waits for this one (spin.cc), or there is something for it to look at (held.cc); or a signal that somebody
// sent to the program, for which this number is any other.
void on_poke(int signal, void* info, void* context) {
  if (leave_is_due()) return leave((UserContext*)context, me());
  if (((const uint64_t*)info)[3] != kPokeValue) return on_sent(signal, info, context);
  ThreadArea* area = me();
  area->poked = 1;
  spin_poked(info);
  SignalContext& c = ((UserContext*)context)->context;
  held_release(area, mask_at(area, c));
  abort_call(c);
  if (!area->frame) look_for_spin(area, (UserContext*)context);
}

// A filter of the program's own traps a call (SECCOMP_RET_TRAP), in a process that the shim has not left. The handler
// finds the call where the program has it, and decides what it comes to: sandboxes compare the address and the number.
void on_filtered(int signal, void* info, UserContext* u) {
  ThreadArea* area = me();
  CallFrame frame = {};
  copy_registers(&frame, u->context);
  if (const CallFrame* made = area->frame) {
    frame = *made;
    find_site(&frame);
    frame.rip = frame.rcx = frame.site + 2;
    ((uint64_t*)info)[2] = frame.rip;  // si_call_addr
    area->frame = made->previous;
  }
  if (actions[signal].handler <= 1 || area->signal_mask & bit(signal)) {
    let_it_kill(signal);
    native(sys::tgkill, native(sys::getpid), native(sys::gettid), signal);
    return;
  }
  enter_handler(&frame, area, signal, info, nullptr, (uint8_t*)u->context.fpstate);
  copy_registers(u->context, &frame);
  u->mask = resting_mask(area);
}

// Syscall User Dispatch: a call that no patch caught. Continue in the shim's entry once this handler has returned.
void on_dispatch(int signal, void* info, void* context) {
  // At replay the core lets through what the kernel raised, and that alone.
  SignalContext& c = ((UserContext*)context)->context;
  if (control.mode != kModeReplay && was_sent(signal, info, c)) return on_sent(signal, info, context);
  if (((const int*)info)[2] == SYS_SECCOMP) return on_filtered(signal, info, (UserContext*)context);
  if (c.rip >= kVdsoAddress && c.rip < kVdsoAddress + 0x10000000) {
    // The real vdso, called by the shim, fell back to the kernel: its clock source has changed.
    c.rax = (uint64_t)friday_syscall((long)c.rax, (long)c.rdi, (long)c.rsi, (long)c.rdx, (long)c.r10, (long)c.r8,
                                     (long)c.r9);
    return;
  }
  ThreadArea* area = me();
  // The kernel has set rip behind the call, of two bytes, and restored rax: the program makes it once more, by itself.
  constexpr uint32_t kArchI386 = 0x40000003;  // AUDIT_ARCH_I386
  const bool other_table = ((const uint32_t*)info)[7] == kArchI386;
  if (other_table && can_leave(area)) {
    trace_end(kEndRefused, 0, "it makes 32-bit calls (int 0x80)");
    c.rip -= 2;
    return leave((UserContext*)context, area);
  }
  area->trap_rip = c.rip;
  if (control.mode == kModeRecord) trace_header()->trapped++;
  c.rip = (uint64_t)friday_enter_trap;
}

void install(int signal, void (*handler)(int, void*, void*), uint64_t flags, uint64_t mask) {
  KernelAction action = {(uint64_t)handler, kSigInfo | kRestorer | kOnStack | flags, (uint64_t)friday_signal_return,
                         mask};
  native(sys::rt_sigaction, signal, &action, 0, 8);
}

}  // namespace

// What the kernel shall do with `signal` given what the program asked.
void install_for(int signal) {
  const KernelAction& wanted = actions[signal];
  if (signal == 31) {
    install(31, on_dispatch, kNoDefer, 0);
  } else if (signal == 4) {
    install(4, on_illegal, kNoDefer, 0);
  } else if (signal == kPokeSignal) {
    install(signal, on_poke, kRestartFlag, 0);
  } else if (signal == 11 || signal == 7 || (signal == 8 && wanted.handler == 0)) {
    install(signal, on_fault, wanted.handler > 1 ? wanted.flags & kNoDefer : 0, 0);
  } else if (wanted.handler <= 1) {  // default or ignored: the kernel's own
    KernelAction plain = {wanted.handler, (wanted.flags & ~kRestartFlag) | kRestorer, (uint64_t)friday_signal_return,
                          0};
    native(sys::rt_sigaction, signal, &plain, 0, 8);
  } else if (synchronous(signal)) {
    install(signal, on_fault, wanted.flags & kNoDefer, 0);
  } else {
    // Never SA_RESTART: a blocked call must come back, so that the handler can run; the shim restarts it itself.
    install(signal, on_signal, wanted.flags & 3 /* SA_NOCLDSTOP, SA_NOCLDWAIT */, ~kForcedSignals);
  }
}

void signals_step_on(CallFrame* frame, ThreadArea* area) {
  if (!area->stepped) return;
  area->stepped = 0;
  frame->eflags |= kTrapFlag;
  frame->full = 1;
}

void signals_expect_exit(int signal) {
  if (signal >= 1 && signal <= 64 && may_be_raised(signal)) exit_signals |= bit(signal);
}

void signals_install() {
  for (int signal = 1; signal <= 64; signal++)
    if (kForcedSignals & bit(signal)) install_for(signal);
  install_for(8);
}

}  // namespace friday::shim
