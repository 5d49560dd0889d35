// The token of a process's threads: only the thread that has it runs the program's code. A thread that makes a call
// marks the token as lent, and when the call returns takes it back with one compare-and-swap. Only a waiting thread
// takes a lent token, and then it writes the release event in the lender's name. So a thread that nobody waits for pays
// almost nothing.
//
// The word `state` has the slot of a thread's area in its low half, and kFree, kHeld or kLent above. The thread that
// sets it to kHeld may write to the trace.
#include <linux/futex.h>

#include "core/shim/calls.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

volatile uint32_t live_threads;

namespace {

constexpr uint32_t kFree = 0, kHeld = 1u << 16, kLent = 2u << 16, kWho = 0xffff;
constexpr int kYields = 8;            // how often a patient waiter polls, at least
constexpr unsigned kLongKept = 1000;  // looks, one a millisecond, after which a kept token is noted

uint32_t state;
uint32_t guard;            // spin lock of the queue
uint32_t waiting;          // threads in the queue
uint32_t patient;          // those of them that poll, and need not be woken
AreaQueue queue;           // of the waiting threads, the oldest first
uint64_t held_since;       // ticks at which the present turn began
uint32_t held_on;          // processor on which the holder was seen last
bool spared;               // the holder must not be poked
uint64_t yields_again;     // ticks before which waiters sleep instead of yielding the processor,
uint64_t pause_of_yields;  // and how many ticks that was after the yield that caused it

void lock() {
  while (__atomic_exchange_n(&guard, 1, __ATOMIC_ACQUIRE)) {
    for (int i = 0; i < 100 && __atomic_load_n(&guard, __ATOMIC_RELAXED); i++) asm volatile("pause");
    if (__atomic_load_n(&guard, __ATOMIC_RELAXED)) native(sys::sched_yield);
  }
}
void unlock() { __atomic_store_n(&guard, 0, __ATOMIC_RELEASE); }

bool move(uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void enter_queue(ThreadArea* area) {
  queue.put(area);
  waiting++;
}

// `before`: as for AreaQueue.
void remove(ThreadArea* area, ThreadArea* before) {
  queue.remove(area, before);
  waiting--;
  end_patience(&area->patient, &patient);
}

void wake(ThreadArea* area) {
  __atomic_store_n(&area->go, 1, __ATOMIC_RELEASE);
  native(sys::futex, &area->go, FUTEX_WAKE_PRIVATE, 1);
}

// Gives the token, which the caller has, to the oldest waiter, or frees it. The guard is held, and is released here.
void pass_on() {
  if (waiting) {
    ThreadArea* next = queue.front();
    remove(next, nullptr);
    __atomic_store_n(&state, kHeld | next->slot, __ATOMIC_SEQ_CST);
    held_since = ticks_now();
    held_on = kNowhere;
    unlock();
    wake(next);
  } else {
    __atomic_store_n(&state, kFree, __ATOMIC_SEQ_CST);
    unlock();
  }
}

// How many threads have waited longer than this one, which is in the queue.
uint32_t place_in_queue(const ThreadArea* area) {
  uint32_t place = 0;
  for (uint32_t at = queue.first; at && at != area->slot + 1; at = area_at(at - 1)->next) place++;
  return place;
}

void leave_queue(ThreadArea* area) {
  ThreadArea* before = nullptr;
  for (uint32_t at = queue.first; at; at = before->next) {
    if (at == area->slot + 1) return remove(area, before);
    before = area_at(at - 1);
  }
}

}  // namespace

// A holder that has not lent the token by the end of its turn computes, or does not run because other programs take the
// processor, for about 3 ms at a time. Then waiters sleep at once for a while, the longer the more often this happens.
static void do_not_yield(uint64_t now) {
  if (now < __atomic_load_n(&yields_again, __ATOMIC_RELAXED)) return;  // another waiter has noted this
  const uint64_t second = trace_header()->ticks_per_second;
  const uint64_t longer = 8 * __atomic_load_n(&pause_of_yields, __ATOMIC_RELAXED), least = second / 100;
  const uint64_t pause = longer < least ? least : min(longer, second);
  __atomic_store_n(&pause_of_yields, pause, __ATOMIC_RELAXED);
  __atomic_store_n(&yields_again, now + pause, __ATOMIC_RELAXED);
}

void let_holder_run(const Token& token) {
  uint64_t from = ticks_now(), turn = __atomic_load_n(&token.since, __ATOMIC_RELAXED);
  if (from < __atomic_load_n(&yields_again, __ATOMIC_RELAXED)) return;
  bool yielded = false;
  // If no other thread wants this processor, a yield returns at once; if the holder runs on another one, there is
  // nothing to yield. In both cases this polls for about as long as to sleep and be woken would take.
  for (int tries = 0; tries < kYields || !elapsed(from, kTurnNs / 10); tries++) {
    if ((__atomic_load_n(&token.state, __ATOMIC_RELAXED) & token.mask) != token.held ||
        __atomic_load_n(&token.go, __ATOMIC_RELAXED)) {
      if (yielded)
        __atomic_store_n(&pause_of_yields, __atomic_load_n(&pause_of_yields, __ATOMIC_RELAXED) / 2, __ATOMIC_RELAXED);
      return;
    }
    const uint32_t processor = __atomic_load_n(&token.processor, __ATOMIC_RELAXED);
    if (processor == kNowhere || processor == own_processor()) yielded = true, native(sys::sched_yield);
    else
      for (int i = 0; i < 20; i++) asm volatile("pause");
    const uint64_t now = ticks_now(), newest = __atomic_load_n(&token.since, __ATOMIC_RELAXED);
    if (newest != turn) {
      turn = newest;
      from = now;
    } else if (elapsed(from, 2 * kTurnNs)) {
      if (yielded) do_not_yield(now);
      return;
    }
  }
}

void log_release(ThreadArea* lender) {
  const CallInfo& info = call_info(lender->call_number);
  EventWriter writer(format::kRelease, lender, (uint16_t)lender->call_number, arguments_of(lender->frame), info.arity);
  writer.commit(0, lender->call_hash, lender->call_ticks, lender->call_ticks);
  lender->call_logged = 1;
}

void token_start(ThreadArea* first) {
  state = kHeld | first->slot;
  guard = waiting = patient = first->patient = 0;
  queue = {};
  held_since = ticks_now();
  held_on = kNowhere;
  live_threads = 1;
}

void token_lend(ThreadArea* area, bool returns_at_once) {
  area->call_logged = 0;
  group_lend(area, returns_at_once);
  if (__atomic_load_n(&waiting, __ATOMIC_RELAXED)) held_on = own_processor();
  __atomic_store_n(&state, kLent | area->slot, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) return;
  // Somebody waits. The token is not handed over for a call that usually does not block, unless this turn has lasted:
  // waiters look every millisecond, so if the call does block, nobody waits longer than that. Nor is it while all
  // waiters are patient, since they look as soon as this thread stops running.
  const bool quick = returns_at_once || __atomic_load_n(&patient, __ATOMIC_SEQ_CST) >= waiting;
  if (quick && !turn_lasted(held_since)) return;
  lock();
  if (waiting && move(kLent | area->slot, kHeld | area->slot)) {
    if (!area->call_logged) log_release(area);
    pass_on();
  } else {
    unlock();
  }
}

bool token_retake(ThreadArea* area) {
  if (control.mode == kModePassThrough) return true;
  if (move(kLent | area->slot, kHeld | area->slot)) group_enter(area, area);
  else token_acquire(area);
  trace_header()->running = format::kComputing;
  return !area->call_logged;
}

bool token_acquire(ThreadArea* area) {
  area->go = 0;
  bool queued = false;
  uint32_t holder = 0;       // `state` at the last look
  uint64_t holds_since = 0;  // `held_since` at the last look
  unsigned unmoved = 0;      // looks in succession at which both were the same
  bool noted = false;        // group_note_kept() was called
  for (;;) {
    lock();
    end_patience(&area->patient, &patient);
    if (control.mode == kModePassThrough) {  // the recording has ended: all threads run
      if (queued) leave_queue(area);
      break;
    }
    if (__atomic_load_n(&area->go, __ATOMIC_ACQUIRE)) break;  // the token was handed to this thread
    uint32_t now = __atomic_load_n(&state, __ATOMIC_SEQ_CST);
    bool taken = false;
    if (now == kFree) {
      taken = move(kFree, kHeld | area->slot);
    } else if ((now & ~kWho) == kLent && (now & kWho) != area->slot) {
      taken = move(now, kHeld | area->slot);
      ThreadArea* lender = area_at(now & kWho);
      if (taken && !lender->call_logged) log_release(lender);
    }
    if (taken) {
      if (queued) leave_queue(area);
      held_since = ticks_now();
      break;
    }
    if (!queued) {
      enter_queue(area);
      queued = true;
      begin_patience(&area->patient, &patient);
      unlock();
      let_holder_run({state, ~kWho, kHeld, held_since, held_on, area->go});
      continue;  // look again, because the holder may have lent the token before it saw this waiter
    }
    unmoved = now == holder && holds_since == held_since ? unmoved + 1 : 0;
    holder = now;
    holds_since = held_since;
    const uint32_t place = place_in_queue(area);
    if (unmoved >= kLongKept && (now & ~kWho) == kHeld) {
      group_note_kept(area_at(now & kWho)->kernel_tid, unmoved);
      noted = true;
    }
    // After 1, 2, 4, 8, ... looks, because a poke only slows down a thread that computes.
    const bool ask = place == 0 && unmoved && (unmoved & (unmoved - 1)) == 0 && (now & ~kWho) == kHeld && !spared;
    if (ask) spin_poke((uint32_t)native(sys::getpid), area_at(now & kWho)->kernel_tid, unmoved);
    unlock();
    const long timeout[2] = {0, pause_of_looks(unmoved, place)};
    native(sys::futex, &area->go, FUTEX_WAIT_PRIVATE, 0, timeout, 0, 0);
  }
  if (noted) group_note_kept(0, 0);
  held_on = own_processor();
  unlock();
  if (control.mode == kModePassThrough) return true;  // the trace may not be mapped any more
  const bool kept = group_enter(area, nullptr);
  trace_header()->running = format::kComputing;
  return kept;
}

// The child may have been killed in a call, so that another thread has the token, or while it waited for the token.
void token_keep(ThreadArea* area) {
  lock();
  leave_queue(area);
  const bool ours =
      __atomic_load_n(&state, __ATOMIC_SEQ_CST) == (kHeld | area->slot) || move(kLent | area->slot, kHeld | area->slot);
  unlock();
  if (ours) group_enter(area, nullptr);
  else token_acquire(area);
}

void token_wait_no_more(ThreadArea* area) {
  lock();
  leave_queue(area);
  unlock();
}

void token_spare(ThreadArea* area, bool on) {
  if (area->borrowed) return;  // a vfork child is another process, which nobody pokes
  lock();
  spared = on;
  unlock();
  group_spare(area, on);
  // A poke that was sent before is delivered before this call returns.
  if (on) native(sys::getpid);
}

bool token_wanted() { return __atomic_load_n(&waiting, __ATOMIC_RELAXED) != 0 || group_wanted(); }

bool token_lasted(long ns) { return elapsed(held_since, ns); }

bool token_overdue() {
  return (__atomic_load_n(&waiting, __ATOMIC_RELAXED) && turn_lasted(held_since)) || group_overdue();
}

bool token_yield(ThreadArea* area) {
  trace_header()->running = format::kInCall;
  group_lend(nullptr, false);
  lock();
  pass_on();
  return !token_acquire(area);
}

void token_leave(ThreadArea* area) {
  (void)area;
  if (control.mode == kModeRecord) {
    trace_header()->running = format::kInCall;
    group_lend(nullptr, false);
  }
  lock();
  pass_on();
}

void token_give_up(const ThreadArea* area) {
  if (__atomic_load_n(&state, __ATOMIC_RELAXED) != (kHeld | area->slot)) return;
  lock();
  pass_on();
}

}  // namespace friday::shim
