// The program's signals. Handlers are never run where the kernel delivers: the shim's own handler notes the signal in
// the thread's ring, and the program's handler is entered at the next call boundary, with a real signal frame on the
// program's stack, so that it can be replayed exactly there. Faults (SIGSEGV and so on) that the program handles are
// its own doing, happen again by themselves at replay, and are delivered at once.
//
// One signal waits in the ring, as a rule: while it does all others with a handler are blocked, so that the kernel
// keeps them. A thread that makes no call gets it where it turns in circles, if it does (spin.cc).
#include <linux/signal.h>

#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

namespace {

struct KernelAction {
  uint64_t handler, flags, restorer, mask;
};
constexpr uint64_t kOnStack = 0x08000000, kRestartFlag = 0x10000000, kNoDefer = 0x40000000, kResetHand = 0x80000000,
                   kSigInfo = 4, kRestorer = 0x04000000;
constexpr uint64_t kIgnored = 1;  // SIG_IGN
KernelAction actions[65];         // what the program asked for

// The kernel's frame (arch/x86/include/uapi/asm/sigcontext.h, asm-generic/ucontext.h).
struct SignalContext {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  uint16_t cs, gs, fs, ss;
  uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};
struct UserContext {
  uint64_t flags, link;
  uint64_t stack_pointer;
  int32_t stack_flags, pad;
  uint64_t stack_size;
  SignalContext context;
  uint64_t mask;
};
struct SignalFrame {
  uint64_t return_address;
  UserContext context;
  uint8_t info[128];
};

uint64_t bit(int signal) { return 1ull << (signal - 1); }
bool synchronous(int signal) { return signal == 11 || signal == 7 || signal == 8 || signal == 5; }
// Those that the kernel also raises for what an instruction does; SIGSYS for the calls that are caught.
bool may_be_raised(int signal) { return synchronous(signal) || signal == 4 || signal == 31; }

void install(int signal, void (*handler)(int, void*, void*), uint64_t flags, uint64_t mask);
void install_for(int signal);
void on_step(int signal, void* info, void* context);
void leave(UserContext* u, ThreadArea* area);

uint32_t state_size(uint64_t mask) { return mask & 0xe0 ? kMostState : mask & 4 ? 832 : 576; }

constexpr uint32_t kInitialMxcsr = 0x1f80;
constexpr uint64_t kMxcsrAt = 24, kPresentAt = 512;

// Saves extended state at `area` in a form that does not depend on which components the processor takes for used
// (xsave.cc); absent ones get their initial values. `kernels`: the frame of the shim's own handler that holds the
// program's state, null where the processor holds it.
void save_state(uint8_t* area, const uint8_t* kernels) {
  uint64_t mask = state_mask();
  uint32_t size = state_size(mask);
  memset(area, 0, size + 4);
  if (kernels) {
    store_state(area, kernels, mask, false);
  } else {
    friday_xsave(area, mask);
    uint64_t* present = (uint64_t*)(area + kPresentAt);
    if (!(*present & 1)) *(uint16_t*)area = 0x37f;
    *present = state_in_use(area, mask);
  }
  uint32_t* software = (uint32_t*)(area + 464);
  software[0] = 0x46505853;  // FP_XSTATE_MAGIC1
  software[1] = size + 4;
  *(uint64_t*)(software + 2) = mask;
  software[4] = size;
  *(uint32_t*)(area + size) = 0x46505845;  // FP_XSTATE_MAGIC2
}

// A handler begins with the initial state, whatever it interrupts (arch/x86/kernel/fpu/core.c, fpu__clear_user_states).
void clear_state(uint8_t* kernels) {
  alignas(64) static uint8_t initial[576];
  uint8_t* area = kernels ? kernels : initial;
  *(uint32_t*)(area + kMxcsrAt) = kInitialMxcsr;
  *(uint64_t*)(area + kPresentAt) &= ~state_mask();
  if (!kernels) friday_xrstor(initial, state_mask());
}

// What the kernel blocks while `area` runs with a mask of `mask`. As long as a signal waits for the next boundary all
// others with a handler wait in the kernel, which merges and orders them. Not those that an instruction may raise: such
// a one would kill if it were blocked.
uint64_t caught() {
  uint64_t mask = 0;
  for (int signal = 1; signal <= 64; signal++)
    if (actions[signal].handler > 1 && !synchronous(signal)) mask |= bit(signal);
  return mask & ~kForcedSignals;
}
uint64_t resting_mask(const ThreadArea* area) {
  return (area->signal_mask | (signals_pending(area) ? caught() : 0)) & ~kForcedSignals;
}

// The program's mask has changed.
void set_kernel_mask(ThreadArea* area) {
  uint64_t real = area->signal_mask & ~kForcedSignals;
  native(sys::rt_sigprocmask, SIG_SETMASK, &real, 0, 8);
  held_release(area, area->signal_mask);
}

// Of ThreadArea::altstack[1], in which the flags stand as the program gave them.
constexpr uint32_t kStackOn = 1, kStackOff = 2, kAutoDisarm = 1u << 31;  // SS_ONSTACK, SS_DISABLE, SS_AUTODISARM

// One that is switched off for as long as a handler runs may be used again at any time: who has left a handler may be
// still on it.
bool on_altstack(const ThreadArea* area, uint64_t rsp) {
  return area->altstack[2] && !(area->altstack[1] & kAutoDisarm) && rsp > area->altstack[0] &&
         rsp <= area->altstack[0] + area->altstack[2];
}

// Whether the program could store there. In a handler of the shim's the faults that tell it may be blocked:
// `in_handler`.
bool writable(uint64_t from, uint64_t to, bool in_handler) {
  const uint64_t faults = bit(11) | bit(7);
  if (in_handler) native(sys::rt_sigprocmask, SIG_UNBLOCK, &faults, 0, 8);  // until the handler returns
  return from < to && probed([&] {
           for (uint64_t at = from; at < to; at = (at | 4095) + 1) __atomic_fetch_or((uint8_t*)at, 0, __ATOMIC_RELAXED);
         });
}

// Builds the frame for `signal` below the program's stack pointer; the registers in `frame` are what the handler will
// return to. Afterwards `frame` leads into the handler. Of a fault, `fault` are err, trapno and cr2, and `kernels` as
// in save_state(). False: the program has no memory there.
bool build_frame(CallFrame* frame, ThreadArea* area, int signal, const void* info, const uint64_t* fault,
                 uint8_t* kernels) {
  KernelAction action = actions[signal];
  if (action.flags & kResetHand) {
    actions[signal].handler = 0;
    if (control.mode != kModeReplay || synchronous(signal)) install_for(signal);
  }
  uint64_t top = frame->rsp - 128;
  if ((action.flags & kOnStack) && area->altstack[2] && !on_altstack(area, frame->rsp))
    top = area->altstack[0] + area->altstack[2];
  uint8_t* state = (uint8_t*)((top - state_size(state_mask()) - 4) & ~63ull);
  SignalFrame* f = (SignalFrame*)((((uint64_t)state - sizeof(SignalFrame)) & ~15ull) - 8);
  if (!writable((uint64_t)f, (uint64_t)state + state_size(state_mask()) + 4, kernels)) return false;
  memset(f, 0, sizeof *f);
  save_state(state, kernels);
  clear_state(kernels);
  f->return_address = action.restorer;
  UserContext& u = f->context;
  u.flags = 7;  // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
  u.stack_pointer = area->altstack[0];
  u.stack_flags = (int32_t)area->altstack[1];
  u.stack_size = area->altstack[2];
  if (area->altstack[1] & kAutoDisarm) area->altstack[0] = area->altstack[2] = 0, area->altstack[1] = kStackOff;
  u.mask = area->signal_mask;
  u.context = {frame->r8,
               frame->r9,
               frame->r10,
               frame->r11,
               frame->r12,
               frame->r13,
               frame->r14,
               frame->r15,
               frame->rdi,
               frame->rsi,
               frame->rbp,
               frame->rbx,
               frame->rdx,
               frame->rax,
               frame->rcx,
               frame->rsp,
               frame->rip,
               frame->eflags,
               0x33,
               0,
               0,
               0x2b,
               fault ? fault[0] : 0,
               fault ? fault[1] : 0,
               area->signal_mask,
               fault ? fault[2] : 0,
               (uint64_t)state,
               {}};
  memcpy(f->info, info, sizeof f->info);
  frame->rdi = (uint64_t)signal;
  frame->rsi = (uint64_t)f->info;
  frame->rdx = (uint64_t)&f->context;
  frame->rax = 0;
  frame->rsp = (uint64_t)f;
  frame->rip = action.handler;
  frame->eflags = 0x202;
  frame->full = 1;
  if (area->waited) area->signal_mask = area->call_mask;
  area->waited = 0;
  area->signal_mask =
      (area->signal_mask | action.mask | (action.flags & kNoDefer ? 0 : bit(signal))) & ~(bit(9) | bit(19));
  if (control.mode != kModeReplay) set_kernel_mask(area);
  return true;
}

void let_it_kill(int signal) {
  KernelAction fatal = {0, kRestorer, (uint64_t)friday_signal_return, 0};
  native(sys::rt_sigaction, signal, &fatal, 0, 8);
}

// At replay the trace is only read.
void note_fault(int signal, uint64_t rip) {
  if (control.mode != kModeRecord) return;
  trace_header()->dies_of = (uint32_t)signal;
  trace_header()->faulted_at = rip;
  trace_header()->running = kFaulted;
  if (group_member() && !me()->frame) robust_publish(me());
}

// At replay a child by vfork is the thread that made it (vfork.cc), and has no process that could die: the thread goes
// on as the parent, at its next call, which is as good as any.
bool ends_as_child(ThreadArea* area, uint64_t* rax, uint64_t* rip) {
  if (control.mode != kModeReplay || !parent_is_due(area, replay_peek())) return false;
  area->trap_rip = *rip;
  *rax = 24 /* sched_yield */;
  *rip = (uint64_t)friday_enter_trap;
  return true;
}

// The thread dies of SIGSEGV, where `frame` stands. `again`: it comes to it by itself. True: a parent goes on, as
// `frame` says.
bool die(CallFrame* frame, ThreadArea* area, const void* info, bool again) {
  if (ends_as_child(area, &frame->rax, &frame->rip)) {
    frame->full = 1;
    return true;
  }
  let_it_kill(11);
  note_fault(11, frame->rip);
  if (control.mode == kModeReplay) {
    frame->full = 1;
    area->frame = frame;
    for (;;) trap(kTrapDies, 11);
  }
  if (!again) native(sys::rt_tgsigqueueinfo, native(sys::getpid), native(sys::gettid), 11, info);
  return false;
}

// As build_frame(). If there is no place for the frame, what the kernel does (force_sigsegv() of kernel/signal.c): the
// thread gets SIGSEGV instead, for which it may have a stack of its own. If that has no place either, or it was that
// signal, the thread dies of it: false.
bool enter_handler(CallFrame* frame, ThreadArea* area, int signal, const void* info, const uint64_t* fault = nullptr,
                   uint8_t* kernels = nullptr) {
  if (build_frame(frame, area, signal, info, fault, kernels)) return true;
  constexpr int kByKernel = 0x80;  // SI_KERNEL
  const int forced[32] = {11, 0, kByKernel};
  const bool handled = signal != 11 && actions[11].handler > 1 && !(area->signal_mask & bit(11));
  if (handled && build_frame(frame, area, 11, forced, fault, kernels)) return true;
  return die(frame, area, forced, fault && signal == 11);
}

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

constexpr uint64_t kTrapFlag = 0x100;

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

void copy_registers(CallFrame* to, const SignalContext& c) {
  to->rax = c.rax;
  to->rdi = c.rdi;
  to->rsi = c.rsi;
  to->rdx = c.rdx;
  to->r10 = c.r10;
  to->r8 = c.r8;
  to->r9 = c.r9;
  to->rbx = c.rbx;
  to->rbp = c.rbp;
  to->r12 = c.r12;
  to->r13 = c.r13;
  to->r14 = c.r14;
  to->r15 = c.r15;
  to->rcx = c.rcx;
  to->r11 = c.r11;
  to->rip = c.rip;
  to->eflags = c.eflags;
  to->rsp = c.rsp;
}
void copy_registers(SignalContext& to, const CallFrame* c) {
  to.rax = c->rax;
  to.rdi = c->rdi;
  to.rsi = c->rsi;
  to.rdx = c->rdx;
  to.r10 = c->r10;
  to.r8 = c->r8;
  to.r9 = c->r9;
  to.rbx = c->rbx;
  to.rbp = c->rbp;
  to.r12 = c->r12;
  to.r13 = c->r13;
  to.r14 = c->r14;
  to.r15 = c->r15;
  to.rcx = c->rcx;
  to.r11 = c->r11;
  to.rip = c->rip;
  to.eflags = c->eflags;
  to.rsp = c->rsp;
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

// The mask that a call sets while it waits; null if none.
const uint64_t* mask_of(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::rt_sigsuspend: return (const uint64_t*)a[0];
    case sys::pselect6: return a[5] ? *(const uint64_t**)a[5] : nullptr;
    case sys::ppoll: return (const uint64_t*)a[3];
    case sys::epoll_pwait:
    case sys::epoll_pwait2: return (const uint64_t*)a[4];
    default: return nullptr;
  }
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

// The oldest signal that has come for the thread and waits.
int take_pending(ThreadArea* area, uint8_t* info) {
  auto& slot = area->pending[area->pending_head % 16];
  const int signal = (int)slot.number;
  memcpy(info, slot.info, sizeof slot.info);
  area->pending_head = area->pending_head + 1;
  return signal;
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

}  // namespace

void signals_step_on(CallFrame* frame, ThreadArea* area) {
  if (!area->stepped) return;
  area->stepped = 0;
  frame->eflags |= kTrapFlag;
  frame->full = 1;
}

// Whether nothing but the death of the process comes of such a signal, if it is not blocked.
static bool kills(uint64_t signal) {
  const uint64_t harmless = bit(17) | bit(18) | bit(19) | bit(20) | bit(21) | bit(22) | bit(23) |
                            bit(28);  // CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH
  return signal >= 1 && signal <= 64 && actions[signal].handler == 0 && !(harmless & bit((int)signal));
}

uint32_t signals_own_death(const CallFrame* frame, const ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint32_t to = (uint32_t)a[0], process = trace_header()->pid;
  switch (frame->rax) {
    case sys::kill:
    case sys::rt_sigqueueinfo: return to == process && kills(a[1]) ? (uint32_t)a[1] : 0;
    case sys::tkill: return to == area->tid && kills(a[1]) ? (uint32_t)a[1] : 0;
    case sys::tgkill:
    case sys::rt_tgsigqueueinfo: return to == process && kills(a[2]) ? (uint32_t)a[2] : 0;
    default: return 0;
  }
}

void signals_expect_exit(int signal) {
  if (signal >= 1 && signal <= 64 && may_be_raised(signal)) exit_signals |= bit(signal);
}

// `info` as it is to travel.
static void pretend(int signal, const void* info, int* marked) {
  constexpr size_t kUsed = 48;  // of the 128 bytes of siginfo_t; the kernel wants those behind to be zero for a si_code
                                // that it does not know
  memset(marked, 0, 128);
  memcpy(marked, info, kUsed);
  if (!may_be_raised(signal) || marked[2] <= 0 || shim_has_left()) return;
  marked[3] = marked[2];
  marked[2] = kPretended;
}

void signals_send_own(int signal, const void* info, bool to_any_thread) {
  int marked[32];
  pretend(signal, info, marked);
  if (to_any_thread) native(sys::rt_sigqueueinfo, native(sys::getpid), signal, marked);
  else native(sys::rt_tgsigqueueinfo, native(sys::getpid), native(sys::gettid), signal, marked);
}

long signals_queue(ThreadArea* area, const CallFrame* frame) {
  const long call = (long)frame->rax;
  const unsigned number_at = call == sys::rt_tgsigqueueinfo ? 2 : 1, info_at = number_at + 1;
  uint64_t a[6];
  memcpy(a, arguments_of(frame), sizeof a);
  int info[32] = {}, marked[32];
  const int signal = (int)a[number_at];
  const bool pretends =
      may_be_raised(signal) && probed([&] { memcpy(info, (const void*)a[info_at], 48); }) && info[2] > 0;
  if (pretends) {
    // Who may send such a thing the kernel says when it is asked to send nothing: only to the process itself.
    uint64_t nothing[6];
    memcpy(nothing, a, sizeof nothing);
    memcpy(marked, info, sizeof marked);
    marked[0] = 0;
    nothing[number_at] = 0;
    nothing[info_at] = (uint64_t)marked;
    if (!failed(native(call, nothing[0], nothing[1], nothing[2], nothing[3]))) {
      pretend(signal, info, marked);
      a[info_at] = (uint64_t)marked;
    }
  }
  return friday_interruptible(area, call, a);
}

void signals_install() {
  for (int signal = 1; signal <= 64; signal++)
    if (kForcedSignals & bit(signal)) install_for(signal);
  install_for(8);
}

void signals_before_exec(ThreadArea* area) {
  for (int signal = 1; signal <= 64; signal++)
    if (kForcedSignals & bit(signal) && actions[signal].handler == kIgnored)
      native(sys::rt_sigaction, signal, &actions[signal], 0, 8);
  held_to_kernel(area, area->signal_mask, ~0ull);
}

void signals_after_exec(ThreadArea* area) {
  signals_install();
  signals_rest(area);
}

void signals_inherit() {
  for (int signal = 1; signal <= 64; signal++) {
    native(sys::rt_sigaction, signal, 0, &actions[signal], 8);
    memcpy(&image_registers.actions[signal], &actions[signal], sizeof actions[signal]);
  }
}

static_assert(sizeof actions == kActionWords * sizeof(uint64_t));
void signals_keep(uint64_t* kept) { memcpy(kept, actions, sizeof actions); }
void signals_give_back(const uint64_t* kept) {
  memcpy(actions, kept, sizeof actions);
  // At replay the child has told the kernel in its parent's name what it wanted of faults.
  for (int signal = 1; signal <= 64 && control.mode == kModeReplay; signal++)
    if (synchronous(signal)) install_for(signal);
}
void signals_apply_mask(ThreadArea* area) { set_kernel_mask(area); }
void signals_rest(ThreadArea* area) {
  const uint64_t real = resting_mask(area);
  native(sys::rt_sigprocmask, SIG_SETMASK, &real, 0, 8);
}

bool handler_restarts(const ThreadArea* area) {
  int signal = (int)area->pending[area->pending_head % 16].number;
  return actions[signal].handler <= 1 || (actions[signal].flags & kRestartFlag);
}

bool signals_deliver(CallFrame* frame, ThreadArea* area, Moment moment) {
  int signal;
  uint8_t info[128];
  if (control.mode == kModeReplay) {
    replay_begin(area);
    EventRecord* event = replay_peek();
    if (event->header.type != kSignal || event->header.thread != area->number)
      diverge(event, kDivergedType, 0, event->header.type, kSignal, frame, area, kSignal);
    signal = event->call;
    const void* recorded = replay_part(event, kSignalInfo, 0, nullptr);
    if (!recorded || signal < 1 || signal > 64) replay_fail("a signal record without its siginfo", signal);
    memcpy(info, recorded, sizeof info);
    replay_consume(event);
  } else {
    const uint64_t mask = area->waited ? area->call_mask : area->signal_mask;
    for (;;) {
      if (!signals_pending(area)) {
        area->waited = 0;
        return false;
      }
      signal = take_pending(area, info);
      if (actions[signal].handler > 1 && !(mask & bit(signal))) break;
      // Its handler is gone, or it has been blocked since: let the kernel see to it.
      signals_apply_mask(area);
      if (actions[signal].handler != 1) signals_send_own(signal, info, false);
    }
    if (control.mode == kModeRecord) {
      EventWriter writer(kSignal, area, (uint16_t)signal, nullptr, 0);
      if (moment == Moment::before_call) writer.event->header.flags |= kFlagAtEntry;
      writer.part(kSignalInfo, info, sizeof info);
      uint64_t now = ticks_now();
      writer.commit(0, 0, now, now);
    }
  }
  // What the handler returns to, in the program's own terms: behind the call, or at it, to make it then.
  if (moment != Moment::anywhere) {
    find_site(frame);
    frame->rip = moment == Moment::after_call ? frame->site + 2 : frame->site;
  }
  enter_handler(frame, area, signal, info);
  // Others that may be delivered now: each handler before the one that was to run, as the kernel stacks them.
  if (control.mode != kModeReplay) {
    signals_deliver(frame, area, Moment::anywhere);
  } else {
    if (replay_signal_follows(area)) signals_deliver(frame, area, Moment::anywhere);
  }
  return true;
}

void signals_hand_on(ThreadArea* area) {
  uint8_t info[128];
  while (signals_pending(area)) {
    const int signal = take_pending(area, info);
    if (((const int*)info)[2] != SI_TKILL /* for this thread only */)
      native(sys::rt_sigqueueinfo, native(sys::getpid), signal, info);
  }
  held_hand_on(area);
}

void signals_note_mask(const CallFrame* frame, ThreadArea* area) {
  bool given = false;
  probed([&] {
    const uint64_t* wanted = mask_of(frame);
    if (!wanted) return;
    area->call_mask = *wanted;
    given = true;
  });
  area->waited = given;
}

// `wanted` is a stack_t. As do_sigaltstack() of kernel/signal.c.
static long set_altstack(ThreadArea* area, const uint64_t* wanted, uint64_t rsp) {
  const uint32_t flags = (uint32_t)wanted[1], way = flags & ~kAutoDisarm;
  const bool off = way == kStackOff;
  if (on_altstack(area, rsp)) return -EPERM;
  if (!off && way != 0 && way != kStackOn) return -EINVAL;
  if (!off && wanted[2] < 2048) return -ENOMEM;
  area->altstack[0] = off ? 0 : wanted[0];
  area->altstack[1] = flags;
  area->altstack[2] = off ? 0 : wanted[2];
  return 0;
}

void do_sigreturn(CallFrame* frame, ThreadArea* area) {
  const UserContext* u = (const UserContext*)frame->rsp;
  copy_registers(frame, u->context);
  if (u->context.fpstate) friday_xrstor((const void*)u->context.fpstate, state_mask());
  area->signal_mask = u->mask & ~(bit(9) | bit(19));
  if (control.mode != kModeReplay) set_kernel_mask(area);
  const uint64_t stack[3] = {u->stack_pointer, (uint32_t)u->stack_flags, u->stack_size};
  set_altstack(area, stack, frame->rsp);  // fails unnoticed, as in the kernel
  frame->eflags = (frame->eflags & 0x50dd5) | 0x202;
  frame->full = 1;
}

uint64_t signal_frame_hash(const CallFrame* frame) {
  const UserContext* u = (const UserContext*)frame->rsp;
  const uint64_t hash = hash_bytes(u, sizeof *u, 0);
  return u->context.fpstate ? hash_bytes((const void*)u->context.fpstate, state_size(state_mask()), hash) : hash;
}

// The address behind a call may lie in the middle of its patch, as may that of an instruction of a loop: go on in the
// stub.
void sigreturn_finish(CallFrame* frame) {
  if (const Patch* patch = patch_of_return(frame->rip)) frame->rip = patch->resume;
  else frame->rip = loop_moved(frame->rip);
}

long do_sigaction(CallFrame* frame, ThreadArea* area) {
  (void)area;
  const uint64_t* a = arguments_of(frame);
  uint64_t signal = a[0];
  if (signal < 1 || signal > 64 || a[3] != 8 || (a[1] && (signal == 9 || signal == 19))) return -EINVAL;
  KernelAction old = actions[signal];
  if (a[1]) {
    actions[signal] = *(const KernelAction*)a[1];
    if (control.mode != kModeReplay || synchronous((int)signal)) install_for((int)signal);
  }
  if (a[2]) friday_copy_out((void*)a[2], &old, sizeof old);
  return 0;
}

long do_sigprocmask(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (a[3] != 8) return -EINVAL;
  uint64_t old = area->signal_mask;
  if (a[1]) {
    uint64_t set = *(const uint64_t*)a[1] & ~(bit(9) | bit(19));
    switch (a[0]) {
      case 0: area->signal_mask |= set; break;
      case 1: area->signal_mask &= ~set; break;
      case 2: area->signal_mask = set; break;
      default: return -EINVAL;
    }
    if (control.mode != kModeReplay) set_kernel_mask(area);
  }
  if (a[2]) friday_copy_out((void*)a[2], &old, 8);
  return 0;
}

long do_sigaltstack(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t state = !area->altstack[2] ? kStackOff : on_altstack(area, frame->rsp) ? kStackOn : 0;
  const uint64_t old[3] = {area->altstack[0], state | (area->altstack[1] & kAutoDisarm), area->altstack[2]};
  if (a[0])
    if (const long error = set_altstack(area, (const uint64_t*)a[0], frame->rsp)) return error;
  if (a[1]) friday_copy_out((void*)a[1], old, sizeof old);
  return 0;
}

}  // namespace friday::shim
