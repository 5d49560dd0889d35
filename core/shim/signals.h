// The program's signals: how they arrive, wait, are delivered to a handler and return, and those that the program
// blocks but the kernel must not (held.cc). Functions of handlers, which may run at any time, say so; all others run
// under the token.
#pragma once

#include <linux/signal.h>

#include "core/shim/call_numbers.h"
#include "core/shim/runtime.h"

namespace friday::shim {

// ---- signals.cc
void signals_install();  // installs the shim's handlers
void signals_inherit();  // at the start: takes over the dispositions with which the program was executed
long do_sigaction(CallFrame* frame, ThreadArea* area);
long do_sigprocmask(CallFrame* frame, ThreadArea* area);
long do_sigaltstack(CallFrame* frame, ThreadArea* area);
void do_sigreturn(CallFrame* frame, ThreadArea* area);
uint64_t signal_frame_hash(const CallFrame* frame);  // of what rt_sigreturn(2) reads
// Where a handler is entered, and so where it returns to: after_call: behind the call, whose result is in frame->rax;
// before_call: at the call, which is then made; anywhere: at the frame's registers.
enum class Moment { after_call, before_call, anywhere };
// Enters the handler of a pending signal, if it is not blocked; at replay, of the next event. True: the frame now
// leads into a handler.
bool signals_deliver(CallFrame* frame, ThreadArea* area, Moment moment);
// The last step of rt_sigreturn(2), unless it enters another handler: where the address lies in a patch, it is
// replaced by the one in the stub.
void sigreturn_finish(CallFrame* frame);
inline bool signals_pending(const ThreadArea* area) { return area->pending_head != area->pending_tail; }
bool handler_restarts(const ThreadArea* area);  // whether the next pending signal's handler has SA_RESTART
// Save and restore the program's dispositions, around a vfork child.
inline constexpr unsigned kActionWords = 65 * 4;
void signals_keep(uint64_t* actions);
void signals_give_back(const uint64_t* actions);
void signals_apply_mask(ThreadArea* area);  // sets the kernel's mask to the program's
void signals_hand_on(ThreadArea* area);     // the thread ends: sends its pending signals to the process
// After a call that waits with a signal mask of its own (sigsuspend(2), ppoll(2), ...) was interrupted: notes the mask,
// with which the handler is chosen.
void signals_note_mask(const CallFrame* frame, ThreadArea* area);
void signals_rest(ThreadArea* area);  // sets the kernel's mask to resting_mask() (signal_frame.h)
// Around execve(2): gives the kernel what the next program inherits of signals, and takes it back after a failure.
void signals_before_exec(ThreadArea* area);
void signals_after_exec(ThreadArea* area);
// A child was made that reports its end by this signal. Its si_code may then look like a fault's.
void signals_expect_exit(int signal);
// The signal by which the call would kill the process that makes it; 0: none.
uint32_t signals_own_death(const CallFrame* frame, const ThreadArea* area);
// If the program's own trap flag has trapped inside the shim: sets the flag in the frame, so that the program's next
// instruction traps.
void signals_step_on(CallFrame* frame, ThreadArea* area);
// Sends a signal with this siginfo_t, which may look like a fault's, to the calling thread or to the process.
void signals_send_own(int signal, const void* info, bool to_any_thread);
// Makes an rt_sigqueueinfo(2), rt_tgsigqueueinfo(2) or pidfd_send_signal(2).
long signals_queue(ThreadArea* area, const CallFrame* frame);
// A positive si_code means that the kernel raised a signal for a fault. If a process sends itself such a signal, the
// shim replaces the si_code by kPretended and puts the original behind it, so that its handlers do not take the signal
// for a fault. signals_unmask() returns true if that was done to `info`, and restores it.
inline constexpr int kPretended = -0x46726964;
inline bool signals_unmask(void* info) {
  int* const words = (int*)info;
  if (words[2] != kPretended) return false;
  words[2] = words[3];
  words[3] = 0;
  return true;
}
// Signals that the kernel must never block, because the shim needs them. A program that blocks them has them held.
inline constexpr uint64_t kForcedSignals = 1ull << (SIGSYS - 1) | 1ull << (SIGILL - 1) | 1ull << (SIGSEGV - 1) |
                                           1ull << (SIGBUS - 1) | 1ull << 63 /* kPokeSignal */;

// A mask of all but SIGSYS: the vdso may have to make a system call for the shim, which that signal catches.
inline constexpr uint64_t kAllButDispatch = ~(1ull << (SIGSYS - 1));

// ---- held.cc: signals of kForcedSignals that were sent while the program blocks them
void held_add(ThreadArea* area, int signal, const void* info);  // in a handler: holds one
void held_release(ThreadArea* area, uint64_t mask);             // sends those that are not in `mask` once more
void held_forget(ThreadArea* area);                             // in a new process: nothing is held
void held_hand_on(ThreadArea* area);                            // the thread ends: sends what it holds to the process
// Gives the kernel what is held for the thread and, of what is held for the process, the signals `general`. The kernel
// blocks them, and those in `mask`.
void held_to_kernel(ThreadArea* area, uint64_t mask, uint64_t general);
extern uint32_t ever_held;  // not 0: something was held at some time
// Makes a call that may look for blocked signals, such as rt_sigtimedwait(2). `since`: as of remaining_arguments().
long held_call(ThreadArea* area, CallFrame* frame, uint64_t since);
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
// ---- timeouts.cc
struct Remaining {
  uint64_t arguments[6], time[2];
};
// The arguments with which a call is made again that has begun at `since` (in ticks) and has waited since then: of a
// limited wait, with the time that is left. `since` 0: it is made for the first time. They are the frame's, or in
// `left`.
const uint64_t* remaining_arguments(const CallFrame* frame, uint64_t since, Remaining* left);

bool has_limit(uint64_t call);                // whether a call of this number may have one
bool waits_for_time(const CallFrame* frame);  // whether there may be others than the frame's

// Makes a call again as long as only the shim's own signals have interrupted it (ThreadArea::poked). `make` is told
// whether it is not the first time. Returns kNotMade if a part is due.
bool part_is_due(uint32_t poked);  // process.h
template <typename Make>
inline long unless_poked(ThreadArea* area, Make&& make) {
  for (bool again = false;; again = true) {
    __atomic_and_fetch(&area->poked, kMayBeginPart, __ATOMIC_RELAXED);
    const long result = make(again);
    if (result != -EINTR && result != kNotMade) return result;
    const uint32_t poked = __atomic_fetch_and(&area->poked, kMayBeginPart, __ATOMIC_RELAXED);
    if (!(poked & (kPoked | kPokedToLook)) || signals_pending(area)) return result;
    if (part_is_due(poked)) return kNotMade;
  }
}
// Makes the program's call, which has begun at ThreadArea::call_ticks; `resumed`: it has waited before. Returns
// kNotMade if a signal for the program is pending, so that its handler comes first.
inline long interruptible_call(ThreadArea* area, CallFrame* frame, bool resumed = false) {
  const uint64_t call = frame->rax;
  return unless_poked(area, [&](bool again) {
    const bool looks = ever_held || concerns_held(call), waited = again || resumed;
    if (__builtin_expect(looks, 0)) return held_call(area, frame, waited ? area->call_ticks : 0);
    if (__builtin_expect(!waited, 1)) return friday_interruptible(area, (long)call, arguments_of(frame));
    Remaining left;
    return friday_interruptible(area, (long)call, remaining_arguments(frame, area->call_ticks, &left));
  });
}

}  // namespace friday::shim
