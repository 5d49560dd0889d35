// The program's signals. A handler of the program is not run where the kernel delivers the signal, because a replay
// could not find that point. The shim's own handler (signal_handlers.cc) puts the signal into the thread's ring of
// pending signals, and the program's handler is entered at the next call boundary, with a signal frame on the program's
// stack (signal_frame.cc). Faults of the program's own instructions (SIGSEGV and the like) are delivered at once,
// because a replay raises them by itself.
//
// Usually the ring has one signal at most: meanwhile all others with a handler are blocked, so that the kernel keeps
// them. A thread that makes no call gets its signal at a yield, if it comes to one (spin.cc, loop.cc).
#include "core/shim/signals.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signal_frame.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

KernelAction actions[65];

// While a signal is pending in the ring, these are blocked, so that the kernel merges and orders them. Signals that an
// instruction may raise are not among them, because the kernel kills a process in which such a signal is blocked.
uint64_t caught() {
  uint64_t mask = 0;
  for (int signal = 1; signal <= 64; signal++)
    if (actions[signal].handler > 1 && !synchronous(signal)) mask |= bit(signal);
  return mask & ~kForcedSignals;
}

uint64_t resting_mask(const ThreadArea* area) {
  return (area->signal_mask | (signals_pending(area) ? caught() : 0)) & ~kForcedSignals;
}

void set_kernel_mask(ThreadArea* area) {
  uint64_t real = area->signal_mask & ~kForcedSignals;
  native(sys::rt_sigprocmask, SIG_SETMASK, &real, 0, 8);
  held_release(area, area->signal_mask);
}

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

int take_pending(ThreadArea* area, uint8_t* info) {
  auto& slot = area->pending[area->pending_head % 16];
  const int signal = (int)slot.number;
  memcpy(info, slot.info, sizeof slot.info);
  area->pending_head = area->pending_head + 1;
  return signal;
}

// Whether the signal kills the process if it is not blocked.
static bool kills(uint64_t signal) {
  const uint64_t harmless = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU) |
                            bit(SIGURG) | bit(SIGWINCH);
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

// Copies the siginfo_t `info` to `marked`, with kPretended as its si_code where that is needed.
static void pretend(int signal, const void* info, int* marked) {
  // sizeof(struct kernel_siginfo). The rest of siginfo_t must be zero if the kernel does not know the si_code.
  constexpr size_t kUsed = 48;
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
    // The kernel allows a positive si_code only for signals to the sender's own process. Sending signal 0 with the
    // original si_code tells whether it does; if it does not, the call below fails as the program's would.
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
  // At replay the parent's process runs the vfork child, which may have changed the kernel's dispositions of faults.
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
    if (!recorded || signal < 1 || signal > 64)
      replay_fail("the event of a signal has no siginfo; number of the signal", signal);
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
      // It has no handler any more, or was blocked since: the kernel gets it back.
      signals_apply_mask(area);
      if (actions[signal].handler != 1) signals_send_own(signal, info, false);
    }
    if (recording()) {
      EventWriter writer(kSignal, area, (uint16_t)signal, nullptr, 0);
      if (moment == Moment::before_call) writer.event->header.flags |= kFlagAtEntry;
      writer.part(kSignalInfo, info, sizeof info);
      uint64_t now = ticks_now();
      writer.commit(0, 0, now, now);
    }
  }
  // The address to which the handler returns, in the program's unpatched code: behind the call, or the call itself.
  if (moment != Moment::anywhere) {
    find_site(frame);
    frame->rip = moment == Moment::after_call ? frame->site + 2 : frame->site;
  }
  enter_handler(frame, area, signal, info);
  if (control.mode == kModeReplay && control.stop_in_handlers) stop_if_wanted();
  // Other signals may be pending that the new mask allows. Each handler that is entered runs before the one so far, as
  // with the kernel.
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

long do_sigaction(CallFrame* frame, ThreadArea* area) {
  (void)area;
  const uint64_t* a = arguments_of(frame);
  uint64_t signal = a[0];
  if (signal < 1 || signal > 64 || a[3] != 8 || (a[1] && (signal == SIGKILL || signal == SIGSTOP))) return -EINVAL;
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
    uint64_t set = *(const uint64_t*)a[1] & ~(bit(SIGKILL) | bit(SIGSTOP));
    switch (a[0]) {
      case SIG_BLOCK: area->signal_mask |= set; break;
      case SIG_UNBLOCK: area->signal_mask &= ~set; break;
      case SIG_SETMASK: area->signal_mask = set; break;
      default: return -EINVAL;
    }
    if (control.mode != kModeReplay) set_kernel_mask(area);
  }
  if (a[2]) friday_copy_out((void*)a[2], &old, 8);
  return 0;
}

}  // namespace friday::shim
