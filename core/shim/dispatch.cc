// The entry for each system call of the program: it is recorded (record_call.cc), replayed (replay.cc), or passed
// through to the kernel after the recording has ended. These handle calls that the table (calls.def) describes in full;
// for all others there is special.cc.
#include "core/shim/calls.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

static_assert(__builtin_offsetof(CallFrame, rip) == 120 && __builtin_offsetof(CallFrame, full) == 152);
static_assert(__builtin_offsetof(ThreadArea, trap_rip) == 24 && __builtin_offsetof(ThreadArea, frame) == 32);
static_assert(__builtin_offsetof(ThreadArea, pending_head) == 144 &&
              __builtin_offsetof(ThreadArea, pending_tail) == 148);
static_assert(__builtin_offsetof(ThreadArea, yield_kind) == 2336 && kYieldLoop == 6);
static_assert(__builtin_offsetof(ThreadArea, in_use) == 2500);
static_assert(__builtin_offsetof(ImageRecord, rip) == 16 && __builtin_offsetof(ImageRecord, rsp) == 24);

void pass_through(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  long call = (long)frame->rax;
  if (shim_has_left()) {  // but could not restore this call's site
    frame->rax = (uint64_t)native(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    return;
  }
  if (!area->native && rules_calls(frame)) {
    if (const long said = control.mode == kModePassThrough ? rules_refused(frame) : 0) {
      frame->rax = said == kRulesAsBefore ? 0 : (uint64_t)said;
      return;
    }
    if (can_leave(area)) leave_at_call();
    process_seals(area);
  }
  if (asks_to_be_traced(frame) && !tracing_refused(frame, area) && can_leave(area)) leave_at_call();
  if (const char* why = area->native ? nullptr : reason_to_leave(frame)) {
    if (can_leave(area)) leave_at_call();
    frame->rax = (uint64_t)refuse_instead(frame, why);
    return;
  }
  if (call == sys::clone || call == sys::fork || call == sys::vfork) {
    frame->rax = (uint64_t)do_clone(frame, area);
    return;
  }
  if (call_info(call).rule == kRefuse) {
    frame->rax = (uint64_t)-ENOSYS;
    return;
  }
  // The program's masks and handlers stay with the shim; the kernel has the shim's.
  if (call == sys::rt_sigreturn) {
    do_sigreturn(frame, area);
    if (!signals_pending(area) || !signals_deliver(frame, area, Moment::anywhere)) sigreturn_finish(frame);
    return;
  }
  if (local_call(frame, area)) {
    if (signals_pending(area)) signals_deliver(frame, area, Moment::after_call);
    return;
  }
  // A clock is still read without a system call, because a filter of the program's may not allow one.
  long now = 0;
  bool read = false;
  if (is_clock(call) && !area->native && probed([&] { read = read_clock(frame, &now); }) && read) {
    frame->rax = (uint64_t)now;
    return;
  }
  if (call == sys::exit) do_thread_exit(frame, area);
  if (call == sys::futex && futex_inherits(a))
    return do_futex_inheriting(frame, area);  // threads may still wait with the shim's protocol
  if (area->native && (call == sys::mmap || call == sys::mprotect || call == sys::munmap || call == sys::mremap ||
                       call == sys::madvise)) {
    frame->rax = (uint64_t)native_mapping(call, a);
    return;
  }
  const bool executes = call == sys::execve || call == sys::execveat;
  if (executes) token_spare(area, true);
  long result;
  while ((result = executes                          ? exec_call(area, call, a)
                   : call_info(call).flags & kPathIn ? call_with_path(area, frame, call_info(call))
                                                     : interruptible_call(area, frame)) == kNotMade)
    if (signals_deliver(frame, area, Moment::before_call)) break;
  if (executes) token_spare(area, false);
  if (result == kNotMade) return;
  if (result == -EINTR) signals_note_mask(frame, area);
  frame->rax = (uint64_t)result;
  if (result == -EINTR && restarts(call_info(call), frame, area)) {
    frame->rax = (uint64_t)call;
    signals_deliver(frame, area, Moment::before_call);
  } else if (signals_pending(area)) {
    signals_deliver(frame, area, Moment::after_call);
  }
}

// Delivers the signals that were recorded around a special call. For all others replay_call() does that.
static void replay_dispatch(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  if (info.rule != kSpecial || special_is_plain(frame)) {
    if (info.rule == kSpecial) special_call(frame, area);
    else replay_call(frame, area, info);
    return;
  }
  replay_begin(area);
  const EventRecord* next = replay_peek();
  if (is_signal_of(next, area) && (next->header.flags & kFlagAtEntry)) {
    signals_deliver(frame, area, Moment::before_call);
    return;
  }
  special_call(frame, area);
  if (!frame->full && replay_signal_follows(area)) signals_deliver(frame, area, Moment::after_call);
}

// Whether the call does not lend the token, so that the thread may have to yield behind it. Not rt_sigreturn(2), after
// which the registers are not those of a call, and not calls that create a thread or process.
static bool keeps_token(const CallInfo& info, uint64_t call) {
  return info.rule != kEmulated && info.rule != kUnknown && call != sys::rt_sigreturn && call != sys::clone &&
         call != sys::fork && call != sys::vfork;
}

// The kernel does not look at the upper half of a register with an argument of 32 bits. The shim passes on, records and
// compares whole registers, so for the time of a call such a one has the value as a signed number.
class NarrowArguments {
 public:
  NarrowArguments(CallFrame* frame, const CallInfo& info) : frame_(frame) {
    uint64_t* a = &frame->rdi;
    for (unsigned mask = info.narrow; mask; mask &= mask - 1) {
      const int n = __builtin_ctz(mask);
      const uint64_t whole = a[n], narrow = (uint64_t)(int64_t)(int32_t)whole;
      if (__builtin_expect(whole >> 32 == 0 || whole == narrow, 1)) continue;
      if (!changed_) memcpy(whole_, a, sizeof whole_);
      changed_ |= 1 << n;
      a[n] = narrow;
    }
  }
  // Behind the call the registers are the program's again. One that has entered a handler has a frame of its own.
  ~NarrowArguments() {
    if (!changed_ || frame_->full) return;
    uint64_t* a = &frame_->rdi;
    for (int n = 0; n < 6; n++)
      if (changed_ >> n & 1) a[n] = whole_[n];
  }

 private:
  CallFrame* frame_;
  uint64_t whole_[6];
  int changed_ = 0;
};

extern "C" int friday_dispatch(CallFrame* frame) {
  ThreadArea* area = me();
  frame->rax = (uint64_t)(int64_t)(int32_t)frame->rax;  // as do_syscall_64() in arch/x86/entry/common.c does
  frame->previous = area->frame;
  area->frame = frame;
  signals_step_on(frame, area);
  if (control.mode != kModeRecord) find_site(frame);  // a debugger shows a parked thread at its call
  const CallInfo& info = call_info(frame->rax);
  const NarrowArguments narrow(frame, info);
  const bool keeps = keeps_token(info, frame->rax);
  if (on_standby && control.mode == kModeRecord && standby_call(frame, area, info)) {
    area->frame = frame->previous;
    return 0;
  }
  if (control.mode == kModeRecord && part_wanted()) part_begin(frame, area);
  switch (area->native ? kModePassThrough : control.mode) {
    case kModeRecord:
      if (state_every) state_note(frame, area);
      record_call(frame, area, info);
      if (keeps) yield_behind_call(frame, area);
      if (on_standby) {  // it has begun with this call, or during it
        area->call_logged = 0;
        token_give_up(area);
      }
      break;
    case kModeReplay:
      replay_dispatch(frame, area, info);
      if (keeps) yield_behind_call(frame, area);
      break;
    default: pass_through(frame, area); break;
  }
  area->frame = frame->previous;
  return 0;
}

}  // namespace friday::shim
