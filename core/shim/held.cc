// Held signals. The kernel must not block the signals that the shim needs itself (kForcedSignals). If one of them is
// sent while the program blocks it, it is held here until the program unblocks it: one of each number for the thread
// and one for the process.
//
// Some calls look for blocked signals: sigtimedwait(2), sigpending(2), reads of a signalfd(2), execve(2). For such a
// call the held signals are given to the kernel, which blocks them during the call; what the call leaves comes back
// here. Only used while recording: at replay no signal is sent.
#include <linux/signal.h>

#include "core/shim/process.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"

namespace friday::shim {

uint32_t ever_held;

namespace {

constexpr int kNumbers[] = {SIGILL, SIGBUS, SIGSEGV, SIGSYS};
constexpr unsigned kCount = sizeof kNumbers / sizeof *kNumbers;

enum State : uint32_t { kEmpty = 0, kBusy = 1, kFull = 2 };
struct Slot {
  uint32_t state, reserved;
  uint8_t info[128];
};
struct Held {
  Slot of[kCount];
};
static_assert(kHeldAt + 2 * sizeof(Held) <= kSignalStackAt);

Held for_all;           // held for the process; handlers of several threads may use it at the same time
uint32_t has_signalfd;  // not 0: any descriptor may be a signalfd

// A vfork child has its own, next to its parent's.
Held& held_of(ThreadArea* area) { return ((Held*)((uint64_t)area + kHeldAt))[area->borrowed ? 1 : 0]; }

uint64_t bit(int signal) { return 1ull << (signal - 1); }

bool change(Slot& slot, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(&slot.state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

uint64_t set_of(const Held& held) {
  uint64_t set = 0;
  for (unsigned i = 0; i < kCount; i++)
    if (held.of[i].state == kFull) set |= bit(kNumbers[i]);
  return set;
}

// Sends the held signals in `which` again: to this thread; or, with `to_all`, to the process, without those that were
// sent to the thread (tkill(2)).
void send(Held& held, uint64_t which, bool to_all) {
  for (unsigned i = 0; i < kCount; i++) {
    Slot& slot = held.of[i];
    uint8_t info[128];
    if (!(which & bit(kNumbers[i])) || !change(slot, kFull, kBusy)) continue;
    memcpy(info, slot.info, sizeof info);
    __atomic_store_n(&slot.state, kEmpty, __ATOMIC_RELEASE);
    if (!to_all || ((const int*)info)[2] != SI_TKILL) signals_send_own(kNumbers[i], info, to_all);
  }
}

// Reads a word of memory that may not be mapped, without a fault.
bool peek(const void* address, uint64_t* word) {
  const uint64_t to[2] = {(uint64_t)word, 8}, from[2] = {(uint64_t)address, 8};
  return native(sys::process_vm_readv, native(sys::getpid), to, 1, from, 1, 0) == 8;
}

// Whether any thread of the process may take the signal: it was sent by kill(2) or reports the end of a child. The
// kernel has chosen a thread because, for it, none blocks the signal.
bool for_any_thread(const void* info) { return ((const int*)info)[2] >= 0 /* SI_USER, CLD_EXITED and its like */; }

// Whether the thread executes another program, which a poke would kill.
bool executes(const ThreadArea* other) {
  const CallFrame* frame = __atomic_load_n(&other->frame, __ATOMIC_RELAXED);
  uint64_t call;
  return frame && peek(&frame->rax, &call) && (call == sys::execve || call == sys::execveat);
}

void have_others_look(const ThreadArea* area) {
  static_assert(__builtin_offsetof(ThreadArea, alive) == __builtin_offsetof(ThreadArea, kernel_tid) + 4);
  for (uint32_t n = 0; n < control.area_count; n++) {
    const ThreadArea* other = area_at(n);
    uint64_t word;
    if (other == area || !peek(&other->kernel_tid, &word) || !(word >> 32) /* alive */ || executes(other)) continue;
    spin_poke((uint32_t)native(sys::getpid), (uint32_t)word, 0);
  }
}

// Which of the signals that are held for the process the call looks for. The others are left to the other threads while
// the call waits.
uint64_t looked_for(const CallFrame* frame) {
  uint64_t set = 0;
  switch (frame->rax) {
    case sys::rt_sigpending: return ~0ull;
    case sys::rt_sigtimedwait: probed([&] { set = *(const uint64_t*)frame->rdi; }); return set;
    case sys::rt_sigsuspend:
    case sys::pselect6:
    case sys::ppoll:
    case sys::epoll_pwait:
    case sys::epoll_pwait2: return ~0ull;  // these wait with another mask
    default: return has_signalfd ? ~0ull : 0;
  }
}

// rt_sigtimedwait(2) takes signals of its set before a handler does. That may be a poke, which is not for the program.
long wait_for_signal(ThreadArea* area, const CallFrame* frame, uint64_t since) {
  const uint64_t* arguments = arguments_of(frame);
  Remaining left;
  uint64_t info[16], changed[6];
  memcpy(changed, remaining_arguments(frame, since, &left), sizeof changed);
  changed[1] = (uint64_t)info;
  const long result = friday_interruptible(area, sys::rt_sigtimedwait, changed);
  if (result == kPokeSignal && info[3] == kPokeValue) {
    area->poked |= kPoked;
    part_note_thread(area, 0);
    return -EINTR;
  }
  if (result == kPokeSignal && info[3] == kLookValue) {
    area->poked |= kPokedToLook;
    return -EINTR;
  }
  signals_unmask(info);
  if (failed(result) || !arguments[1] || probed([&] { memcpy((void*)arguments[1], info, sizeof info); })) return result;
  return -EFAULT;
}

long make(ThreadArea* area, CallFrame* frame, uint64_t since) {
  switch (frame->rax) {
    case sys::rt_sigtimedwait: return wait_for_signal(area, frame, since);
    case sys::rt_sigqueueinfo:
    case sys::rt_tgsigqueueinfo:
    case sys::pidfd_send_signal: return signals_queue(area, frame);
  }
  Remaining left;
  return friday_interruptible(area, (long)frame->rax, remaining_arguments(frame, since, &left));
}

long call_with_held(ThreadArea* area, CallFrame* frame, uint64_t since, uint64_t general) {
  held_to_kernel(area, area->signal_mask & ~kForcedSignals, general);
  const long result = make(area, frame, since);
  const uint32_t poked = area->poked;
  signals_rest(area);
  area->poked = poked;  // as it was, although handlers have run for the signals that came back
  return result;
}

}  // namespace

void held_add(ThreadArea* area, int signal, const void* info) {
  const bool any = for_any_thread(info) && !area->borrowed;
  for (unsigned i = 0; i < kCount; i++) {
    Slot& slot = (any ? for_all : held_of(area)).of[i];
    if (kNumbers[i] != signal || !change(slot, kEmpty, kBusy)) continue;
    memcpy(slot.info, info, sizeof slot.info);
    __atomic_store_n(&slot.state, kFull, __ATOMIC_RELEASE);
  }
  ever_held = 1;
  standby_looks_at_all();
  if (any) have_others_look(area);
}

void held_release(ThreadArea* area, uint64_t mask) {
  if (!ever_held) return;
  send(held_of(area), ~mask, false);
  send(for_all, ~mask, false);
}

void held_forget(ThreadArea* area) {
  memset(&held_of(area), 0, sizeof(Held));
  if (!area->borrowed) memset(&for_all, 0, sizeof for_all);
}

void held_hand_on(ThreadArea* area) {
  if (ever_held) send(held_of(area), ~0ull, true);
}

void held_to_kernel(ThreadArea* area, uint64_t mask, uint64_t general) {
  general &= set_of(for_all);
  const uint64_t real = mask | general | set_of(held_of(area));
  native(sys::rt_sigprocmask, SIG_SETMASK, &real, 0, 8);
  send(held_of(area), ~0ull, false);
  send(for_all, general, false);
}

long held_call(ThreadArea* area, CallFrame* frame, uint64_t since) {
  if (frame->rax == sys::signalfd || frame->rax == sys::signalfd4) has_signalfd = 1;
  const uint64_t all = set_of(for_all), general = all ? looked_for(frame) & all : 0;
  return general || set_of(held_of(area)) ? call_with_held(area, frame, since, general) : make(area, frame, since);
}

}  // namespace friday::shim
