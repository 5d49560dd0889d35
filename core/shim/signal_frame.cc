// The signal frame: built on the program's stack as the kernel builds it, when a handler of the program is entered, and
// read when the handler returns. Also the alternate signal stack, and the death of a thread whose stack has no room for
// a frame.
#include "core/shim/signal_frame.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

uint32_t state_size(uint64_t mask) { return mask & 0xe0 ? kMostState : mask & 4 ? 832 : 576; }

constexpr uint32_t kInitialMxcsr = 0x1f80;
constexpr uint64_t kMxcsrAt = 24, kPresentAt = 512;

// Saves the program's extended state at `area`, in a form that does not depend on what the processor regards as in use
// (xsave.cc). `kernels`: the state in the kernel's frame, if this runs in a handler of the shim's; null: the state is
// in the registers.
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
  *(SoftwareBytes*)(area + kSoftwareAt) = {kMagic, size + 4, mask, size};
  *(uint32_t*)(area + size) = kMagicBehind;
}

// The extended state that a thread begins with, as large as all that state_mask() can name: a processor may look at all
// of it, also at components that are in their initial state.
alignas(64) uint8_t initial[2816];

// Gives the handler the initial extended state (fpu__clear_user_states() in arch/x86/kernel/fpu/core.c).
void clear_state(uint8_t* kernels) {
  uint8_t* area = kernels ? kernels : initial;
  *(uint32_t*)(area + kMxcsrAt) = kInitialMxcsr;
  *(uint64_t*)(area + kPresentAt) &= ~state_mask();
  if (!kernels) friday_xrstor(initial, state_mask());
}

// Loads the extended state of a frame, which the program may have changed, as fpu__restore_sig() in
// arch/x86/kernel/fpu/signal.c does: a frame without the two magic numbers has x87 and SSE only, and everything else
// becomes initial. False: the processor does not accept it.
bool load_state(const uint8_t* area) {
  if (!area) {
    clear_state(nullptr);
    return true;
  }
  constexpr uint64_t kLegacy = 3, kLegacyBytes = 512;
  alignas(64) uint8_t legacy[576] = {};
  return probed([&] {
    const SoftwareBytes software = *(const SoftwareBytes*)(area + kSoftwareAt);
    const bool whole = software.magic == kMagic && software.bytes >= sizeof legacy &&
                       software.bytes <= software.all_bytes && software.bytes <= state_size(state_mask()) &&
                       *(const uint32_t*)(area + software.bytes) == kMagicBehind;
    *(uint32_t*)(initial + kMxcsrAt) = kInitialMxcsr;
    const uint64_t there = state_mask() & (whole ? software.components : kLegacy);
    if (state_mask() & ~there) friday_xrstor(initial, state_mask() & ~there);
    if (whole) return friday_xrstor(area, there);
    memcpy(legacy, area, kLegacyBytes);
    *(uint64_t*)(legacy + kPresentAt) = kLegacy;
    friday_xrstor(legacy, there);
  });
}

// Whether the thread runs on its alternate signal stack. With SS_AUTODISARM that never counts, because the stack is
// switched off while a handler runs (sigaltstack(2)).
bool on_altstack(const ThreadArea* area, uint64_t rsp) {
  return area->altstack[2] && !(area->altstack[1] & kAutoDisarm) && rsp > area->altstack[0] &&
         rsp <= area->altstack[0] + area->altstack[2];
}

// Whether the program can write to [from, to). The probe for that faults if it cannot; in a handler of the shim's these
// faults may be blocked, and are unblocked until the handler returns.
bool writable(uint64_t from, uint64_t to, bool in_handler) {
  const uint64_t faults = bit(SIGSEGV) | bit(SIGBUS);
  if (in_handler) native(sys::rt_sigprocmask, SIG_UNBLOCK, &faults, 0, 8);
  return from < to && probed([&] {
           for (uint64_t at = from; at < to; at = (at | 4095) + 1) __atomic_fetch_or((uint8_t*)at, 0, __ATOMIC_RELAXED);
         });
}

// As enter_handler(), but returns false if the stack has no room for the frame.
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
  // A watch of the stack may stop the thread in what follows: it is shown at the handler's first instruction then.
  const CallFrame before = *frame;
  frame->rdi = (uint64_t)signal;
  frame->rsi = (uint64_t)f->info;
  frame->rdx = (uint64_t)&f->context;
  frame->rax = 0;
  frame->rsp = (uint64_t)f;
  frame->rip = action.handler;
  frame->eflags = 0x202;
  frame->full = 1;
  frame->site = 0;
  CallFrame* const shown = area->frame;
  if (control.mode == kModeReplay) area->frame = frame;
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
  u.context = {before.r8,
               before.r9,
               before.r10,
               before.r11,
               before.r12,
               before.r13,
               before.r14,
               before.r15,
               before.rdi,
               before.rsi,
               before.rbp,
               before.rbx,
               before.rdx,
               before.rax,
               before.rcx,
               before.rsp,
               before.rip,
               before.eflags,
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
  area->frame = shown;
  frame->site = before.site;
  if (area->waited) area->signal_mask = area->call_mask;
  area->waited = 0;
  area->signal_mask =
      (area->signal_mask | action.mask | (action.flags & kNoDefer ? 0 : bit(signal))) & ~(bit(SIGKILL) | bit(SIGSTOP));
  if (control.mode != kModeReplay) set_kernel_mask(area);
  return true;
}

bool handles_segv(const ThreadArea* area) {
  return actions[SIGSEGV].handler > kIgnored && !(area->signal_mask & bit(SIGSEGV));
}

// The siginfo_t of a SIGSEGV that the kernel raises by itself: SI_KERNEL.
constexpr int kForced[32] = {SIGSEGV, 0, 0x80};

// The thread dies of SIGSEGV at the registers of `frame`. `again`: it will execute an instruction that faults, so the
// signal need not be sent. True: the thread was a vfork child at replay, and `frame` now leads to its parent's return.
bool die(CallFrame* frame, ThreadArea* area, const void* info, bool again) {
  if (ends_as_child(area, &frame->rax, &frame->rip)) {
    frame->full = 1;
    return true;
  }
  let_it_kill(SIGSEGV);
  note_fault(SIGSEGV, frame->rip);
  if (control.mode == kModeReplay) {
    frame->full = 1;
    area->frame = frame;
    for (;;) trap(kTrapDies, SIGSEGV);
  }
  if (!again) native(sys::rt_tgsigqueueinfo, native(sys::getpid), native(sys::gettid), SIGSEGV, info);
  return false;
}

}  // namespace

void let_it_kill(int signal) {
  KernelAction fatal = {0, kRestorer, (uint64_t)friday_signal_return, 0};
  native(sys::rt_sigaction, signal, &fatal, 0, 8);
}

void note_fault(int signal, uint64_t rip) {
  if (control.mode != kModeRecord) return;
  trace_header()->dies_of = (uint32_t)signal;
  trace_header()->faulted_at = rip;
  trace_header()->running = kFaulted;
  if (group_member() && !me()->frame) robust_publish(me());
}

// At replay a vfork child is run by its parent's thread (vfork.cc), so no process dies: the thread goes on as the
// parent. It does so at its next call, and is sent into one here.
bool ends_as_child(ThreadArea* area, uint64_t* rax, uint64_t* rip) {
  if (control.mode != kModeReplay || !parent_is_due(area, replay_peek())) return false;
  area->trap_rip = *rip;
  *rax = sys::sched_yield;
  *rip = (uint64_t)friday_enter_trap;
  return true;
}

// If there is no room for the frame, the thread gets SIGSEGV instead, whose handler may use the alternate stack. If
// that has no room either, or the signal is SIGSEGV, the thread dies of it. The kernel does the same (force_sigsegv()
// in kernel/signal.c).
bool enter_handler(CallFrame* frame, ThreadArea* area, int signal, const void* info, const uint64_t* fault,
                   uint8_t* kernels) {
  if (build_frame(frame, area, signal, info, fault, kernels)) return true;
  if (signal != SIGSEGV && handles_segv(area) && build_frame(frame, area, SIGSEGV, kForced, fault, kernels))
    return true;
  return die(frame, area, kForced, fault && signal == SIGSEGV);
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

// Does what do_sigaltstack() in kernel/signal.c does. `wanted` is a stack_t.
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

// The kernel raises SIGSEGV if it cannot return to what the frame says. That happens in the same way at replay.
static void refuse_frame(CallFrame* frame, ThreadArea* area, const uint64_t* fault) {
  frame->full = 1;
  if (handles_segv(area)) enter_handler(frame, area, SIGSEGV, kForced, fault);
  else die(frame, area, kForced, false);
}

void do_sigreturn(CallFrame* frame, ThreadArea* area) {
  UserContext u;
  if (!probed([&] { u = *(const UserContext*)frame->rsp; })) return refuse_frame(frame, area, nullptr);
  area->signal_mask = u.mask & ~(bit(SIGKILL) | bit(SIGSTOP));
  if (control.mode != kModeReplay) set_kernel_mask(area);
  copy_registers(frame, u.context);
  frame->eflags = (frame->eflags & 0x50dd5) | 0x202;
  frame->full = 1;
  const bool canonical = (uint64_t)((int64_t)(frame->rip << 16) >> 16) == frame->rip;
  if (!load_state((const uint8_t*)u.context.fpstate)) return refuse_frame(frame, area, nullptr);
  constexpr uint64_t kProtection[3] = {0, 13, 0};  // no error code, X86_TRAP_GP, no address
  if (!canonical) return refuse_frame(frame, area, kProtection);
  const uint64_t stack[3] = {u.stack_pointer, (uint32_t)u.stack_flags, u.stack_size};
  set_altstack(area, stack, frame->rsp);  // the kernel ignores an error as well
}

uint64_t signal_frame_hash(const CallFrame* frame) {
  const UserContext* u = (const UserContext*)frame->rsp;
  const uint64_t hash = hash_bytes(u, sizeof *u, 0);
  return u->context.fpstate ? hash_bytes((const void*)u->context.fpstate, state_size(state_mask()), hash) : hash;
}

// The address may be in the middle of a patch: behind a call, or of an instruction of a loop. The thread then goes on
// in the stub.
void sigreturn_finish(CallFrame* frame) {
  if (const Patch* patch = patch_of_return(frame->rip)) frame->rip = patch->resume;
  else frame->rip = loop_moved(frame->rip);
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
