// Futexes with priority inheritance (futex(2), FUTEX_LOCK_PI). For these the kernel writes thread ids into the futex
// words at moments that no call of the program shows. So the shim builds them from plain futexes, with the same
// contents of the words (Documentation/locking/pi-futex.rst): the owner's thread id, FUTEX_WAITERS, FUTEX_OWNER_DIED.
// While a process is recorded, only one of its threads runs at a time, so there is no priority to inherit. The words
// have recorded thread ids, while recording and at replay.
#include <linux/futex.h>

#include "core/shim/calls.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

bool load(uint64_t address, uint32_t* value) {
  return probed([&] { *value = *(const volatile uint32_t*)address; });
}

// Records or replays the program's call, whose result the shim has computed. `word` is the address of a futex word that
// the call has written and that a replay cannot compute; 0 if there is none.
void finish(CallFrame* frame, ThreadArea* area, long result, uint64_t word = 0) {
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::futex);
    replay_same(event, (uint64_t)event->result, (uint64_t)result, frame, area);
    replay_apply(event);
    replay_consume(event);
  } else if (control.mode == kModeRecord) {
    const uint64_t now = ticks_now();
    EventWriter writer(kCall, area, sys::futex, arguments_of(frame), 6);
    writer.event->header.flags |= kFlagNative;
    if (word) writer.memory((void*)word, 4);
    writer.commit(result, 0, now, now);
  }
  frame->rax = (uint64_t)result;
}

// Whether a wait for this mutex must poll, because processes share it. When its owner is killed, the kernel wakes only
// those that wait with FUTEX_LOCK_PI, which no thread does here.
bool looks(const CallFrame* frame) { return !(frame->rsi & FUTEX_PRIVATE_FLAG); }

constexpr long kLookAfter = 50000000, kSecond = 1000000000;  // nanoseconds

// Stores in area->wait_until when the next wait ends: at the program's timeout `limit` (null: none), or earlier, after
// kLookAfter. Returns true if it is earlier.
bool limit_wait(ThreadArea* area, const int64_t* limit, long clock) {
  int64_t until[2] = {};
  native(sys::clock_gettime, clock, until);
  until[1] += kLookAfter;
  if (until[1] >= kSecond) until[0]++, until[1] -= kSecond;
  const bool look = !limit || until[0] < limit[0] || (until[0] == limit[0] && until[1] < limit[1]);
  memcpy(area->wait_until, look ? until : limit, sizeof until);
  return look;
}

// Waits while the word is `value`; the wait is a futex(2) event of its own. False: a signal has arrived. `frame` then
// leads into its handler, and the program's call is made again after it.
bool wait(CallFrame* frame, ThreadArea* area, uint32_t value, long* result) {
  const bool realtime = (frame->rsi & kFutexCommand) == FUTEX_LOCK_PI || (frame->rsi & FUTEX_CLOCK_REALTIME);
  CallFrame plain = *frame;
  plain.rsi = FUTEX_WAIT_BITSET | (frame->rsi & FUTEX_PRIVATE_FLAG) | (realtime ? FUTEX_CLOCK_REALTIME : 0);
  if (looks(frame)) plain.r10 = (uint64_t)area->wait_until;
  plain.rdx = value;
  plain.r8 = 0;
  plain.r9 = 0xffffffff;
  area->frame = &plain;
  bool interrupted = false;
  if (control.mode == kModeReplay) {
    // Which area a thread gets depends on when the kernel has ended the threads before, so the address of this one's
    // limit may be another one than was recorded. It is the shim's own, and nothing is read there now.
    replay_begin(area);
    constexpr unsigned kLimit = 3;
    if (const EventRecord* next = replay_peek(); looks(frame) && next->argument_count > kLimit)
      plain.r10 = ((const uint64_t*)(next + 1))[kLimit];
    EventRecord* event = replay_expect(&plain, area, kCall, sys::futex);
    *result = event->result;
    replay_consume(event);
    const EventRecord* next = replay_peek();
    interrupted = is_signal_of(next, area);
  } else {
    Recorded done;
    bool look;
    uint32_t now = value;
    do {
      look = looks(frame) && limit_wait(area, (const int64_t*)frame->r10, realtime ? 0 : 1);
      done = make_call(&plain, area, call_info(sys::futex));
      look = look && done.result == -ETIMEDOUT;
    } while (look && !done.stolen && !signals_pending(area) && load(frame->rdi, &now) && now == value);
    if (look) done.result = -EAGAIN;
    if (group_member()) robust_woken(frame->rdi);
    *result = done.result == kNotMade ? -EINTR : done.result;
    // Also recorded if it was not made, so that the signal's event comes after this wait and not after the one before.
    if (control.mode == kModeRecord) {
      EventWriter writer(done.stolen ? kReturn : kCall, area, sys::futex, arguments_of(&plain), 6);
      writer.commit(*result, done.hash, done.entry, done.exit);
    }
    interrupted = signals_pending(area);
  }
  area->frame = frame;
  return !interrupted || !signals_deliver(frame, area, Moment::before_call);
}

void lock(CallFrame* frame, ThreadArea* area, bool only_try) {
  const uint64_t word = frame->rdi;
  int64_t limit[2] = {};
  if (!only_try && frame->r10 && !probed([&] { memcpy(limit, (const void*)frame->r10, sizeof limit); }))
    return finish(frame, area, -EFAULT);
  if (limit[0] < 0 || (uint64_t)limit[1] >= kSecond) return finish(frame, area, -EINVAL);
  for (;;) {
    uint32_t value;
    if (!load(word, &value)) return finish(frame, area, -EFAULT);
    const uint32_t owner = value & FUTEX_TID_MASK;
    if (!owner) {
      if (!futex_word_set((uint32_t*)word, &value, value | area->tid)) continue;
      return finish(frame, area, 0);
    }
    if (owner == area->tid) return finish(frame, area, -EDEADLK);
    if (only_try) return finish(frame, area, -EAGAIN);
    if ((frame->rsi & FUTEX_PRIVATE_FLAG) && !living_thread(owner)) return finish(frame, area, -ESRCH);
    if (!futex_word_set((uint32_t*)word, &value, value | FUTEX_WAITERS)) continue;
    long result;
    if (!wait(frame, area, value | FUTEX_WAITERS, &result)) return;
    if (result == -ETIMEDOUT || (failed(result) && result != -EAGAIN && result != -EINTR))
      return finish(frame, area, result);
  }
}

void unlock(CallFrame* frame, ThreadArea* area) {
  const uint64_t word = frame->rdi;
  uint32_t value;
  if (!load(word, &value)) return finish(frame, area, -EFAULT);
  if ((value & FUTEX_TID_MASK) != area->tid) return finish(frame, area, -EPERM);
  // Nobody but the owner takes its thread id out of the word; the others set FUTEX_WAITERS there. The thread that is
  // woken takes the mutex, unless another one does before. A thread that is about to wait finds that the word has
  // changed, so it does not sleep.
  if (control.mode != kModeReplay) {
    while (!futex_word_set((uint32_t*)word, &value, value & FUTEX_WAITERS)) {}
    uint32_t free = FUTEX_WAITERS;
    if ((value & FUTEX_WAITERS) &&
        native(sys::futex, word, FUTEX_WAKE | (frame->rsi & FUTEX_PRIVATE_FLAG), 1, 0, 0, 0) <= 0)
      futex_word_set((uint32_t*)word, &free, 0);  // unless another thread has taken the mutex meanwhile
  }
  finish(frame, area, 0, word);
}

}  // namespace

bool futex_word_set(uint32_t* word, uint32_t* seen, uint32_t value) {
  if (control.mode != kModeReplay)
    return __atomic_compare_exchange_n(word, seen, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  friday_copy_out(word, &value, 4);
  return true;
}

bool futex_inherits(const uint64_t* a) {
  const uint64_t operation = a[1] & kFutexCommand;
  return operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2 || operation == FUTEX_UNLOCK_PI ||
         operation == FUTEX_TRYLOCK_PI || operation == FUTEX_WAIT_REQUEUE_PI || operation == FUTEX_CMP_REQUEUE_PI;
}

void do_futex_inheriting(CallFrame* frame, ThreadArea* area) {
  switch (frame->rsi & kFutexCommand) {
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2: return lock(frame, area, false);
    case FUTEX_TRYLOCK_PI: return lock(frame, area, true);
    case FUTEX_UNLOCK_PI: return unlock(frame, area);
    default: return finish(frame, area, -ENOSYS);  // requeueing, which glibc has not used since version 2.25
  }
}

}  // namespace friday::shim
