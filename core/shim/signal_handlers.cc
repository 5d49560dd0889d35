// The handlers that the shim installs with the kernel. They put a signal for the program into the thread's ring of
// pending signals, deliver faults to the program, carry out planted instructions, send a thread whose call no patch
// caught into the shim's entry, and check a thread for a pure spin. They may interrupt any code, including the shim's.
#include <linux/signal.h>

#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signal_frame.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
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

// Has the interrupted thread single-step when the handler returns, if it may be in a pure spin.
void look_for_spin(ThreadArea* area, UserContext* u) {
  if (u->context.eflags & kTrapFlag) return;  // the program single-steps itself
  loops_ask(area);
  if (!spin_begin(area, point_of(u->context))) {
    spin_tell(area, u->context.rip);
    if (signals_pending(area)) spin_look_later(area);
    return;
  }
  install(SIGTRAP, on_step, 0, 0);
  u->mask &= ~bit(SIGTRAP);  // the kernel kills a process that blocks SIGTRAP and traps
  u->context.eflags |= kTrapFlag;
}

// If the thread is about to make an interruptible call, it does not make it: friday_interruptible returns kNotMade.
void abort_call(SignalContext& c) {
  if (c.rip >= (uint64_t)friday_interruptible_start && c.rip <= (uint64_t)friday_interruptible_call)
    c.rip = (uint64_t)friday_interruptible_abort;
  if (c.rip >= (uint64_t)friday_straight_start && c.rip <= (uint64_t)friday_straight_call)
    c.rip = (uint64_t)friday_straight_abort;
}

bool in_shim(uint64_t rip) {
  return (rip >= control.text_low && rip < control.text_high) ||
         (rip >= kVdsoAddress && rip < kVdsoAddress + 0x10000000);
}

// On standby a signal is pending that the shim may not see by itself: the thread enters it at the next loop site, or is
// interrupted again.
void look_soon(ThreadArea* area) {
  loops_let(area, 1);
  spin_look_later(area);
}

// The handler for every signal for which the program has a handler, other than faults.
void on_signal(int signal, void* info, void* context) {
  ThreadArea* area = me();
  SignalContext& c = ((UserContext*)context)->context;
  // Nothing is recorded, so the program's handler is entered at once. But a stub may have stored in the area where the
  // program goes on, and the handler's calls store there, too.
  if ((control.mode == kModePassThrough || (on_standby && !in_stub(c.rip))) && !area->frame && !signals_pending(area) &&
      !in_shim(c.rip)) {
    CallFrame frame = {};
    copy_registers(&frame, c);
    enter_handler(&frame, area, signal, info, nullptr, (uint8_t*)c.fpstate);
    copy_registers(c, &frame);
    ((UserContext*)context)->mask = resting_mask(area);
    return;
  }
  // A signal that is never blocked (kForcedSignals) may interrupt this handler and add itself to the ring as well.
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
  if (area->frame) return;
  if (on_standby) look_soon(area);  // it may have left the shim without having seen the signal
  else look_for_spin(area, (UserContext*)context);
}

// If the fault is that of a probe (runtime.h), makes friday_probe return 1. False: it is not.
bool leave_probe(const ThreadArea* area, SignalContext& c) {
  if (!area->probe || !in_shim(c.rip)) return false;
  const Probe& p = *(const Probe*)area->probe;
  c.rbx = p.rbx, c.rbp = p.rbp, c.r12 = p.r12, c.r13 = p.r13, c.r14 = p.r14, c.r15 = p.r15;
  c.rsp = p.rsp, c.rip = p.rip, c.rax = 1;
  return true;
}

uint64_t exit_signals;  // signals other than SIGCHLD by which children report their end (clone(2))

// Whether the kernel raised the signal for the interrupted instruction, if it is one that may also report the end of a
// child. Then siginfo_t has a pid and a user id where a fault has its address.
bool raised_there(int signal, const void* info, const SignalContext& c) {
  const uint64_t address = ((const uint64_t*)info)[2];
  const bool of_page = c.trapno == 14 && c.cr2 == address, unaligned = c.trapno == 17 && address == 0;
  return signal == SIGSEGV ? of_page : signal == SIGBUS ? of_page || unaligned : address == c.rip;
}

// Whether a process has sent the signal, or a child has ended; otherwise an instruction raised it. Restores the
// si_code.
bool was_sent(int signal, void* info, const SignalContext& c) {
  if (signals_unmask(info)) return true;
  const int code = ((const int*)info)[2];
  if (code <= 0) return true;
  return code <= CLD_CONTINUED && exit_signals & bit(signal) && !raised_there(signal, info, c);
}

// The program's signal mask where a handler has interrupted the thread. A call may wait with a mask of its own.
uint64_t mask_at(const ThreadArea* area, const SignalContext& c) {
  uint64_t mask = area->waited ? area->call_mask : area->signal_mask;
  constexpr uint64_t kCallLength = 2;
  if (area->frame && c.rip == (uint64_t)friday_interruptible_call + kCallLength)
    probed([&] {
      if (const uint64_t* wanted = mask_of(area->frame)) mask = *wanted;
    });
  return mask;
}

// Does what the kernel would do with a signal that was sent, although the shim's handler for faults or pokes got it.
void on_sent(int signal, void* info, void* context) {
  ThreadArea* area = me();
  UserContext* u = (UserContext*)context;
  const bool blocked = mask_at(area, u->context) & kForcedSignals & bit(signal);
  if (!blocked && actions[signal].handler > 1) return on_signal(signal, info, context);
  area->poked |= kPoked;  // an interrupted call is made again
  if (blocked && signal != kPokeSignal) {
    held_add(area, signal, info);
    return abort_call(u->context);
  }
  if (blocked) u->mask |= bit(signal);
  else if (actions[signal].handler == 1) return;
  else let_it_kill(signal);
  signals_send_own(signal, info, false);  // again, and now the kernel blocks it or kills the process
}

// The error code of a page fault for the program's handler. Its lowest bit says whether the page was present, which
// depends on huge pages, on swapping, and on who else uses a file, and so differs at replay. Here it says instead
// whether there is a mapping, which forbids the access.
uint64_t error_code(uint64_t err, const void* info) {
  constexpr int kMapError = 1;  // SEGV_MAPERR
  constexpr uint64_t kPresent = 1;
  const int* words = (const int*)info;
  return (err & ~kPresent) | (words[0] == SIGSEGV && words[2] != kMapError ? kPresent : 0);
}

// If the program single-steps itself and the instruction just executed is the shim's, hides the trap from the program's
// handler, and returns true. A stub counts as one step. In the shim itself the trap flag is cleared until the program
// goes on (signals_step_on).
bool hide_step(int signal, const void* info, SignalContext& c) {
  constexpr int kTrace = 2;  // TRAP_TRACE
  if (signal != SIGTRAP || ((const int*)info)[2] != kTrace) return false;
  if (!in_shim(c.rip)) return in_stub(c.rip);
  c.eflags &= ~kTrapFlag;
  me()->stepped = 1;
  return true;
}

// A fault: of a probe, or of an instruction of the program. The latter enters the program's handler at once. If there
// is none, the disposition becomes the default, and the same instruction faults again and kills the process.
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
  // cr2 is the address of the last page fault, so for other faults it is left out.
  const bool page_fault = c.trapno == 14;
  uint64_t fault[3] = {page_fault ? error_code(c.err, info) : c.err, c.trapno, page_fault ? c.cr2 : 0};
  // The kernel restores the extended state from its own frame when this handler returns.
  if (!enter_handler(&frame, area, signal, info, fault, (uint8_t*)c.fpstate)) return;
  copy_registers(c, &frame);
  // At replay the kernel blocks nothing; the program's mask is only kept in the area.
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
    if (control.mode == kModeReplay && could_leave(me()))
      replay_end_of_trace();  // while recording, the shim has left the process here
  }
  CallFrame frame = {};
  copy_registers(&frame, c);
  if (emulate_instruction(&frame, (const uint8_t*)c.fpstate)) copy_registers(c, &frame);
  else on_fault(signal, info, context);
}

// The thread has executed an instruction while it is checked for a pure spin (spin.cc).
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

// The shim leaves the process (leave.cc): this handler returns to the program for the last time.
void leave(UserContext* u, ThreadArea* area) {
  const uint64_t everything = ~0ull;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, 0, 8);
  if (CallFrame* frame = area->frame) {
    find_site(frame);
    copy_registers(u->context, frame);
    u->context.rip = frame->site;
  }
  for (int signal = 1; signal <= 64; signal++)
    if (signal != SIGKILL && signal != SIGSTOP) native(sys::rt_sigaction, signal, &actions[signal], 0, 8);
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

// kPokeSignal: a poke by a thread that waits for this one (spin.cc) or holds a signal for it (held.cc), or an ordinary
// signal for the program, which may use this number as well.
void on_poke(int signal, void* info, void* context) {
  if (leave_is_due()) return leave((UserContext*)context, me());
  const uint64_t value = ((const uint64_t*)info)[3];
  if (value == kLookValue) {
    me()->poked |= kPokedToLook;
    return abort_call(((UserContext*)context)->context);
  }
  if (value != kPokeValue) return on_sent(signal, info, context);
  ThreadArea* area = me();
  area->poked |= kPoked;
  spin_poked(info);
  SignalContext& c = ((UserContext*)context)->context;
  part_note_thread(area, c.fpstate);
  held_release(area, mask_at(area, c));
  abort_call(c);
  if (area->frame) return;
  if (!on_standby) return look_for_spin(area, (UserContext*)context);
  if (in_shim(c.rip) || in_stub(c.rip)) {
    if (signals_pending(area)) look_soon(area);
    return;
  }
  CallFrame frame = {};
  copy_registers(&frame, c);
  if (standby_interrupted(&frame, area)) copy_registers(c, &frame);
}

// A seccomp filter of the program has trapped a call (SECCOMP_RET_TRAP), in a process that the shim could not leave.
// The program's handler must see the call at its own address, because sandboxes check the address and the number.
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

// Makes a call of the 32-bit table, which takes its arguments in rbx, rcx, rdx, rsi, rdi and rbp.
long call_of_32_bits(const SignalContext& c) {
  long result = (long)c.rax;
  const uint64_t others[2] = {c.rbx, c.rbp};
  register const uint64_t* from __asm__("r12") = others;
  // Below the stack pointer the compiler may keep variables (the red zone).
  __asm__ volatile(
      "lea -128(%%rsp), %%rsp\n\t"
      "push %%rbx\n\t"
      "push %%rbp\n\t"
      "mov (%%r12), %%rbx\n\t"
      "mov 8(%%r12), %%rbp\n\t"
      "int $0x80\n\t"
      "pop %%rbp\n\t"
      "pop %%rbx\n\t"
      "lea 128(%%rsp), %%rsp"
      : "+a"(result)
      : "r"(from), "c"(c.rcx), "d"(c.rdx), "S"(c.rsi), "D"(c.rdi)
      : "memory", "cc", "r8", "r9", "r10", "r11");
  return result;
}

// SIGSYS of Syscall User Dispatch: a call that no patch caught. The thread goes on in the shim's entry.
void on_dispatch(int signal, void* info, void* context) {
  // At replay the core only lets signals through that the kernel has raised.
  SignalContext& c = ((UserContext*)context)->context;
  if (control.mode != kModeReplay && was_sent(signal, info, c)) return on_sent(signal, info, context);
  if (((const int*)info)[2] == SYS_SECCOMP) return on_filtered(signal, info, (UserContext*)context);
  if (c.rip >= kVdsoAddress && c.rip < kVdsoAddress + 0x10000000) {
    // The kernel's vdso, called by the shim, makes a system call, because the kernel's clock source has changed.
    c.rax = (uint64_t)friday_syscall((long)c.rax, (long)c.rdi, (long)c.rsi, (long)c.rdx, (long)c.r10, (long)c.r8,
                                     (long)c.r9);
    return;
  }
  ThreadArea* area = me();
  // A 32-bit call. The recording ends, and the program makes it again by itself: rip is behind its two bytes, and rax
  // has its number. Where the shim cannot leave, as there are several threads, it makes the call for the program.
  constexpr uint32_t kArchI386 = 0x40000003;  // AUDIT_ARCH_I386
  const bool other_table = ((const uint32_t*)info)[7] == kArchI386;
  if (other_table && (area->native || control.mode != kModeReplay)) {
    if (!area->native) trace_end(kEndRefused, 0, "it makes 32-bit system calls (int 0x80)");
    if (can_leave(area)) {
      c.rip -= 2;
      return leave((UserContext*)context, area);
    }
    token_give_up(area);
    c.rax = (uint64_t)call_of_32_bits(c);
    return;
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

void install_for(int signal) {
  const KernelAction& wanted = actions[signal];
  if (signal == SIGSYS) {
    install(SIGSYS, on_dispatch, kNoDefer, 0);
  } else if (signal == SIGILL) {
    install(SIGILL, on_illegal, kNoDefer, 0);
  } else if (signal == kPokeSignal) {
    install(signal, on_poke, kRestartFlag, 0);
  } else if (signal == SIGSEGV || signal == SIGBUS || (signal == SIGFPE && wanted.handler == 0)) {
    install(signal, on_fault, wanted.handler > 1 ? wanted.flags & kNoDefer : 0, 0);
  } else if (signal == SIGCHLD && control.mode == kModeReplay) {
    // The program gets this signal from the recording. Ignored, it leaves no zombies of the copies that the core makes
    // of this process's children.
    KernelAction ignored = {1 /* SIG_IGN */, kRestorer, (uint64_t)friday_signal_return, 0};
    native(sys::rt_sigaction, signal, &ignored, 0, 8);
  } else if (wanted.handler <= 1) {  // SIG_DFL or SIG_IGN: the kernel does that
    KernelAction plain = {wanted.handler, (wanted.flags & ~kRestartFlag) | kRestorer, (uint64_t)friday_signal_return,
                          0};
    native(sys::rt_sigaction, signal, &plain, 0, 8);
  } else if (synchronous(signal)) {
    install(signal, on_fault, wanted.flags & kNoDefer, 0);
  } else {
    // Without SA_RESTART, so that a call that blocks returns and the program's handler can run. The shim makes the call
    // again if the program's SA_RESTART asks for it.
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
  install_for(SIGFPE);
}

}  // namespace friday::shim
