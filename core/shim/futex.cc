// Futexes with priority inheritance. The kernel writes thread ids into their words, at moments that no call shows; so they are
// made of plain ones here, by the same words (Documentation/locking/pi-futex.rst, "FUTEX_WAITERS"): thread id of the owner, a
// bit that says that others wait, a bit that says that the owner has died. As one thread of a process runs at a time there is
// no priority to inherit. Owners and waiters see recorded ids in both modes.
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint32_t kWaiters = 0x80000000, kOwner = 0x3fffffff;
enum : uint64_t { kWake = 1, kLock = 6, kUnlock = 7, kTryLock = 8, kWaitBitset = 9, kWaitRequeue = 11, kRequeue = 12, kLock2 = 13 };
constexpr uint64_t kPrivate = 128, kRealtime = 256;
constexpr long kAgain = -11, kFault = -14, kInvalid = -22, kPerm = -1, kNoCall = -38, kDeadlock = -35, kSearch = -3, kInterrupted = -4, kTimedOut = -110;

bool load(uint64_t address, uint32_t* value) {
  return probed([&] { *value = *(const volatile uint32_t*)address; });
}
void store(uint64_t address, uint32_t value) { friday_copy_out((void*)address, &value, 4); }

bool lives(uint32_t tid) {
  for (uint32_t n = 0; n < control.thread_count; n++)
    if (area_of(n)->alive && area_of(n)->tid == tid) return true;
  return false;
}

// The call as the program made it, with what it came to: computed in process, the same in both modes. `word`: one that it wrote
// and that does not follow from what was there, 0 if none.
void finish(CallFrame* frame, ThreadArea* area, long result, uint64_t word = 0) {
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, 202);
    replay_same(event, (uint64_t)event->result, (uint64_t)result, frame, area);
    replay_apply(event);
    replay_consume(event);
  } else if (control.mode == kModeRecord) {
    const uint64_t now = ticks_now();
    EventWriter writer(kCall, area, 202, arguments_of(frame), 6);
    writer.event->header.flags |= kFlagNative;
    if (word) writer.memory((void*)word, 4);
    writer.commit(result, 0, now, now);
  }
  frame->rax = (uint64_t)result;
}

// A mutex between processes, or a robust one. The kernel wakes nobody who waits for it here when its owner is killed, as it has a
// list of its own of those who wait for such words: so who waits looks now and then.
bool looks(const CallFrame* frame) { return !(frame->rsi & kPrivate); }

constexpr long kLookAfter = 50000000, kSecond = 1000000000;  // nanoseconds

// Until when the next wait lasts: up to the program's limit, or to a look before it (true).
bool limit_wait(ThreadArea* area, const int64_t* limit, long clock) {
  int64_t until[2] = {};
  native(228, clock, until);
  until[1] += kLookAfter;
  if (until[1] >= kSecond) until[0]++, until[1] -= kSecond;
  const bool look = !limit || until[0] < limit[0] || (until[0] == limit[0] && until[1] < limit[1]);
  memcpy(area->wait_until, look ? until : limit, sizeof until);
  return look;
}

// Waits while the word is `value`, by a call of its own in the trace. False: a handler comes first, `frame` leads there, and the
// program's call is made again behind it.
bool wait(CallFrame* frame, ThreadArea* area, uint32_t value, long* result) {
  const bool realtime = (frame->rsi & 127) == kLock || (frame->rsi & kRealtime);
  CallFrame plain = *frame;
  plain.rsi = kWaitBitset | (frame->rsi & kPrivate) | (realtime ? kRealtime : 0);
  if (looks(frame)) plain.r10 = (uint64_t)area->wait_until;
  plain.rdx = value;
  plain.r8 = 0;
  plain.r9 = 0xffffffff;
  area->frame = &plain;
  bool interrupted = false;
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(&plain, area, kCall, 202);
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
      done = make_call(&plain, area, call_info(202));
      look = look && done.result == kTimedOut;
    } while (look && !done.stolen && !signals_pending(area) && load(frame->rdi, &now) && now == value);
    if (look) done.result = kAgain;
    if (group_member()) robust_woken(frame->rdi);
    *result = done.result == kNotMade ? kInterrupted : done.result;
    if (control.mode == kModeRecord) {  // one that was not made too: a signal then comes behind this wait, not behind the one before
      EventWriter writer(done.stolen ? kReturn : kCall, area, 202, arguments_of(&plain), 6);
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
  if (!only_try && frame->r10 && !probed([&] { memcpy(limit, (const void*)frame->r10, sizeof limit); })) return finish(frame, area, kFault);
  if (limit[0] < 0 || (uint64_t)limit[1] >= kSecond) return finish(frame, area, kInvalid);
  for (;;) {
    uint32_t value;
    if (!load(word, &value)) return finish(frame, area, kFault);
    const uint32_t owner = value & kOwner;
    if (!owner) {
      store(word, value | area->tid);
      return finish(frame, area, 0);
    }
    if (owner == area->tid) return finish(frame, area, kDeadlock);
    if (only_try) return finish(frame, area, kAgain);
    if ((frame->rsi & kPrivate) && !lives(owner)) return finish(frame, area, kSearch);
    store(word, value | kWaiters);
    long result;
    if (!wait(frame, area, value | kWaiters, &result)) return;
    if (result == kTimedOut || (failed(result) && result != kAgain && result != kInterrupted)) return finish(frame, area, result);
  }
}

void unlock(CallFrame* frame, ThreadArea* area) {
  const uint64_t word = frame->rdi;
  uint32_t value;
  if (!load(word, &value)) return finish(frame, area, kFault);
  if ((value & kOwner) != area->tid) return finish(frame, area, kPerm);
  // Whoever is woken takes it, or somebody else who comes first; one that is about to wait sees that the word has changed.
  if (control.mode != kModeReplay) {
    store(word, value & kWaiters);
    if ((value & kWaiters) && native(202, word, kWake | (frame->rsi & kPrivate), 1, 0, 0, 0) <= 0) store(word, 0);
  }
  finish(frame, area, 0, word);
}

}  // namespace

bool futex_inherits(const uint64_t* a) {
  const uint64_t operation = a[1] & 127;
  return operation == kLock || operation == kLock2 || operation == kUnlock || operation == kTryLock || operation == kWaitRequeue || operation == kRequeue;
}

void do_futex_inheriting(CallFrame* frame, ThreadArea* area) {
  switch (frame->rsi & 127) {
    case kLock: case kLock2: return lock(frame, area, false);
    case kTryLock: return lock(frame, area, true);
    case kUnlock: return unlock(frame, area);
    default: return finish(frame, area, kNoCall);  // requeueing, which the C library has not used since 2.25
  }
}

}  // namespace friday::shim
