#include "core/shim/standby.h"

#include <linux/futex.h>

#include "core/shim/collector.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"

namespace friday::shim {

uint32_t on_standby;

extern "C" {
uint32_t friday_straight;            // not 0: calls of `friday_straight_calls` are made without the shim (entry.S)
uint8_t friday_straight_calls[512];  // by number, not 0: those that goes_to_kernel() whatever their arguments are
}
static_assert(kCallCount <= sizeof friday_straight_calls && __builtin_offsetof(ThreadArea, call_number) == 136 &&
              __builtin_offsetof(ThreadArea, stepped) == 2460 &&
              format::kWindowAddress + __builtin_offsetof(format::FileHeader, wanted) == 0x100000000094);

namespace {

uint32_t halted;  // futex; not 0: threads shall stand still

void set_standing(ThreadArea* area, bool on) { __atomic_store_n(&area->standing, on, __ATOMIC_SEQ_CST); }
bool halt_wanted() { return __builtin_expect(__atomic_load_n(&halted, __ATOMIC_SEQ_CST) != 0, 0); }

// While one of these lives, the thread's frame leads to its call once more: with it the thread goes on if a part begins
// meanwhile, both here and at replay, where it stands in the image.
class AtCall {
 public:
  AtCall(CallFrame* frame, ThreadArea* area) : frame_(frame), area_(area), rip_(frame->rip), full_(frame->full) {
    find_site(frame);
    frame->rip = frame->site;
    frame->full = 1;
    area->call_logged = 0;
    set_standing(area, true);
  }
  ~AtCall() {
    set_standing(area_, false);
    frame_->rip = rip_;
    frame_->full = full_;
  }
  AtCall(const AtCall&) = delete;

 private:
  CallFrame* const frame_;
  ThreadArea* const area_;
  const uint64_t rip_, full_;
};

// A thread that is in a frame inside of another one, or that runs as a vfork child, cannot stand still.
bool can_stand(const CallFrame* frame, const ThreadArea* area) { return !frame->previous && !area->borrowed; }

// A part has begun while the thread stood still.
[[noreturn]] void begin_recorded(ThreadArea* area) {
  set_standing(area, false);
  thread_begins(area);
}

// Waits until the threads may go on.
void stand_still(ThreadArea* area) {
  while (halt_wanted()) {
    part_note_thread(area, 0);
    native(sys::futex, &halted, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0);
  }
  if (on_standby) return;
  token_acquire(area);
  begin_recorded(area);
}

// Takes the token for a call.
void take_token(CallFrame* frame, ThreadArea* area) {
  if (keeps_schedule || !can_stand(frame, area)) return (void)token_acquire(area);
  const AtCall waits(frame, area);
  token_acquire(area);
  if (!on_standby) begin_recorded(area);
}

// Whether any call of this number changes nothing that the shim keeps, and can do the recording no harm later.
bool is_harmless(const CallInfo& info) {
  return info.rule == kEmulated && !is_coded(info) && info.inputs[0].shape != Shape::coded &&
         info.inputs[0].shape != Shape::iocbs;
}

// The same of this call.
bool goes_to_kernel(const CallFrame* frame, const ThreadArea* area, const CallInfo& info) {
  if (area->native || ever_held || concerns_held(frame->rax)) return false;
  if (keeps_schedule && schedule_wants(frame, area, info)) return false;
  switch (frame->rax) {
    case sys::futex: return !futex_inherits(arguments_of(frame));
    case sys::close: return !collector_owns((int)frame->rdi);
    case sys::fcntl:
    case sys::ioctl: return !refused_for_shim(frame, area);
    default: break;
  }
  return info.rule == kNative || is_harmless(info);
}

// Whether any call of this number goes to the kernel and waits for no limited time.
bool goes_straight(uint64_t call) {
  const CallInfo& info = call_info(call);
  return is_harmless(info) && !(info.flags & kPathIn) && info.flags & (kQuick | kIn | kOut) && !concerns_held(call) &&
         !is_clock(call) && !has_limit(call) && !(keeps_schedule && schedule_may_keep(call));
}

enum class Made { yes, again };

// What follows a call that was made: the delivery of a signal that has arrived meanwhile. Again: it is to be made
// again.
Made settle(CallFrame* frame, ThreadArea* area, const CallInfo& info, long result) {
  if (result == kNotMade) return signals_deliver(frame, area, Moment::before_call) ? Made::yes : Made::again;
  if (result == -EINTR) signals_note_mask(frame, area);
  const bool restart = result == -EINTR && restarts(info, frame, area);
  if (!restart) frame->rax = (uint64_t)result;
  if (!signals_pending(area)) return Made::yes;
  const bool entered = signals_deliver(frame, area, restart ? Moment::before_call : Moment::after_call);
  return restart && !entered ? Made::again : Made::yes;
}

// Makes the call. Again: first there is something to do in the shim, or one of its own signals has interrupted the
// call. `since`: ticks when it was made first; `may_end`: a part that is wanted comes first.
Made make(CallFrame* frame, ThreadArea* area, const CallInfo& info, uint64_t* since, bool may_end) {
  const uint64_t call = frame->rax;
  long result = 0;
  bool read = false;
  if (is_clock(call) && probed([&] { read = read_clock(frame, &result); }) && read) {
    frame->rax = (uint64_t)result;
    return signals_pending(area) ? settle(frame, area, info, result) : Made::yes;
  }
  __atomic_store_n(&area->poked, 0, __ATOMIC_SEQ_CST);
  if (may_end && (halt_wanted() || part_wanted())) return Made::again;
  if (info.flags & kPathIn && loaded_program[0]) {
    result = call_with_path(area, frame, info);
  } else if (info.flags & kQuick || !waits_for_time(frame)) {
    result = friday_interruptible(area, (long)call, arguments_of(frame));
  } else {
    Remaining left;
    const uint64_t* a = remaining_arguments(frame, *since, &left);
    if (!*since) *since = ticks_now();
    result = friday_interruptible(area, (long)call, a);
  }
  const bool interrupted = result == -EINTR || result == kNotMade;
  if (__builtin_expect(interrupted, 0) && !signals_pending(area) && (result == kNotMade || area->poked))
    return Made::again;
  return settle(frame, area, info, result);
}

// Makes a call that changes what the shim keeps, or that a schedule keeps. False: another thread has ended the
// recording meanwhile, and the call is still to be made.
bool make_with_token(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  take_token(frame, area);
  if (control.mode != kModeRecord) return false;
  record_call(frame, area, info);
  if (control.mode != kModeRecord || !on_standby) return true;
  area->call_logged = 0;
  token_give_up(area);
  return true;
}

// Begins the part that is wanted. False: that is impossible at the moment.
bool end_standby(CallFrame* frame, ThreadArea* area) {
  take_token(frame, area);
  part_begin(frame, area);
  if (!on_standby) return true;
  token_give_up(area);
  return false;
}

}  // namespace

bool standby_call(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  uint64_t since = 0;
  bool tried = false;
  if (shaping() && shape_may_wait(frame, info)) shape_waits_in(frame, area, info);
  if (area->call_number & kInterrupted) {
    area->call_number = 0;
    if (settle(frame, area, info, -EINTR) == Made::yes) return true;
  }
  for (;;) {
    token_give_up(area);
    const bool may_end = can_stand(frame, area);
    if (halt_wanted() && may_end) {
      const AtCall waits(frame, area);
      stand_still(area);
    }
    if (part_wanted() && may_end && !tried) {
      if (!part_pauses() && end_standby(frame, area)) return false;
      tried = true;
    }
    if (!goes_to_kernel(frame, area, info)) return make_with_token(frame, area, info);
    if (make(frame, area, info, &since, may_end && !tried) == Made::yes) return true;
    tried = false;
  }
}

bool standby_interrupted(CallFrame* frame, ThreadArea* area) {
  if (area->borrowed) return false;
  token_give_up(area);
  if (!halt_wanted() && !signals_pending(area)) return false;
  enter_yield(frame, area, (format::YieldKind)kStandsStill);
  return true;
}

void standby_deliver(CallFrame* frame, ThreadArea* area) {
  if (on_standby && control.mode == kModeRecord && !area->frame && signals_pending(area))
    enter_yield(frame, area, (format::YieldKind)kStandsStill);
}

void standby_stand(CallFrame* frame, ThreadArea* area) {
  area->yield_kind = 0;
  frame->previous = area->frame;
  frame->site = frame->rip - 2;
  area->frame = frame;
  area->call_logged = 0;
  signals_step_on(frame, area);
  if (can_stand(frame, area)) {
    set_standing(area, true);
    stand_still(area);
    set_standing(area, false);
  }
  if (signals_pending(area)) signals_deliver(frame, area, Moment::anywhere);
  area->frame = frame->previous;
}

void standby_first_turn(ThreadArea* area) {
  set_standing(area, true);
  token_acquire(area);
  set_standing(area, false);
  if (on_standby) token_give_up(area);
}

void standby_begins() {
  for (uint64_t call = 0; call < kCallCount - 1; call++) friday_straight_calls[call] = goes_straight(call);
  on_standby = 1;
  friday_straight = !ever_held;
}

void standby_ends() {
  on_standby = 0;
  friday_straight = 0;
}

void standby_looks_at_all() { friday_straight = 0; }

void standby_halt() { __atomic_store_n(&halted, 1, __ATOMIC_SEQ_CST); }

void standby_go_on() {
  __atomic_store_n(&halted, 0, __ATOMIC_SEQ_CST);
  native(sys::futex, &halted, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

bool standby_stands(const ThreadArea* area) { return __atomic_load_n(&area->standing, __ATOMIC_SEQ_CST); }

}  // namespace friday::shim
