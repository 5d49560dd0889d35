// The program's signals, and those that the program blocks and the kernel must not.
#pragma once

#include "core/shim/call_numbers.h"
#include "core/shim/runtime.h"

namespace friday::shim {

// ---- signals.cc
void signals_install();
void signals_inherit();  // dispositions the program started with
long do_sigaction(CallFrame* frame, ThreadArea* area);
long do_sigprocmask(CallFrame* frame, ThreadArea* area);
long do_sigaltstack(CallFrame* frame, ThreadArea* area);
void do_sigreturn(CallFrame* frame, ThreadArea* area);
uint64_t signal_frame_hash(const CallFrame* frame);  // of what it reads
// Where a handler may be entered: behind a call (its result is in frame->rax), before it (the call is made when the
// handler returns), or anywhere else: the registers it returns to are in the frame.
enum class Moment { after_call, before_call, anywhere };
// Enters a handler of the program if one is due. True: the frame now leads into a handler.
bool signals_deliver(CallFrame* frame, ThreadArea* area, Moment moment);
void sigreturn_finish(CallFrame* frame);  // the last step of a return that no other handler follows
inline bool signals_pending(const ThreadArea* area) { return area->pending_head != area->pending_tail; }
bool handler_restarts(const ThreadArea* area);
inline constexpr unsigned kActionWords = 65 * 4;
void signals_keep(uint64_t* actions);  // what the program asked to be done with its signals
void signals_give_back(const uint64_t* actions);
void signals_apply_mask(ThreadArea* area);  // the program's mask becomes the kernel's
void signals_hand_on(ThreadArea* area);     // what has come for a thread that ends is for the others
// After a call that sets a mask while it waits (sigsuspend, ppoll, ...) was interrupted.
void signals_note_mask(const CallFrame* frame, ThreadArea* area);
void signals_rest(ThreadArea* area);         // the kernel's mask while no handler is due: the program's, or more of it
void signals_before_exec(ThreadArea* area);  // what the shim keeps to itself the kernel is told, for the next program
void signals_after_exec(ThreadArea* area);   // which was none
// The end of a child will be told by this signal, with a si_code that a fault may have.
void signals_expect_exit(int signal);
uint32_t signals_own_death(
    const CallFrame* frame,
    const ThreadArea* area);  // the signal by which a call kills the process that makes it; 0: none
void signals_step_on(
    CallFrame* frame,
    ThreadArea* area);  // where a program that single-steps itself goes on behind the shim: with its trap flag
// Sends a signal with this siginfo_t, which may look like a fault's, to the calling thread, or to any thread of the
// process.
void signals_send_own(int signal, const void* info, bool to_any_thread);
// What rt_sigqueueinfo(2), rt_tgsigqueueinfo(2) and pidfd_send_signal(2) come to.
long signals_queue(ThreadArea* area, const CallFrame* frame);
// A signal that the process itself sent with a positive si_code travels with kPretended instead, and its own si_code
// behind, so that nobody takes it for a fault. True: `info` was of that kind, and is now as it was sent.
inline constexpr int kPretended = -0x46726964;
inline bool signals_unmask(void* info) {
  int* const words = (int*)info;
  if (words[2] != kPretended) return false;
  words[2] = words[3];
  words[3] = 0;
  return true;
}
inline constexpr uint64_t kForcedSignals = (1ull << 30) /* SIGSYS */ | (1ull << 3) /* SIGILL */ |
                                           (1ull << 10) /* SIGSEGV */ | (1ull << 6) /* SIGBUS */ |
                                           (1ull << 63) /* kPokeSignal */;

// ---- held.cc: signals that the program blocks and the kernel must not
void held_add(ThreadArea* area, int signal, const void* info);  // in a handler
void held_release(ThreadArea* area, uint64_t mask);             // those not in `mask` come once more
void held_forget(ThreadArea* area);
void held_hand_on(ThreadArea* area);  // the thread ends
// Which blocks them, and what is in `mask`: the thread's own and, of what is held for any thread, `general`.
void held_to_kernel(ThreadArea* area, uint64_t mask, uint64_t general);
extern uint32_t ever_held;                           // so that no call has to look
long held_call(ThreadArea* area, CallFrame* frame);  // a call that may look for them
// The program's call; not made (kNotMade) while a signal waits. What interrupts it and is none of the program's
// business, such as a signal that it ignores, is not seen.
inline bool concerns_held(uint64_t call) {
  switch (call) {
    case sys::rt_sigtimedwait:
    case sys::rt_sigqueueinfo:
    case sys::signalfd:
    case sys::signalfd4:
    case sys::rt_tgsigqueueinfo:
    case sys::pidfd_send_signal: return true;
    default: return false;
  }
}
// A call that only a waiter's poke has interrupted (spin.cc) is made again.
template <typename Make>
inline long unless_poked(ThreadArea* area, Make&& make) {
  for (;;) {
    area->poked = 0;
    const long result = make();
    if (result != -EINTR && result != kNotMade) return result;
    if (!__atomic_exchange_n(&area->poked, 0, __ATOMIC_RELAXED) || signals_pending(area)) return result;
  }
}
inline long interruptible_call(ThreadArea* area, CallFrame* frame) {
  const uint64_t call = frame->rax;
  return unless_poked(area, [&] {
    const bool looks = ever_held || concerns_held(call);
    return __builtin_expect(looks, 0) ? held_call(area, frame)
                                      : friday_interruptible(area, (long)call, arguments_of(frame));
  });
}

}  // namespace friday::shim
