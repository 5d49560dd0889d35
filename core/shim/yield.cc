// Yields: the token is handed over where the program makes no call. A thread that waits in a loop with `pause` for a
// store by another thread would wait for ever, because the other thread cannot run. At replay the thread yields at
// exactly the same point. The same is done in loops without `pause` (spin.cc, loop.cc).
#include "core/shim/patch.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

// A `pause` is identified by its number: at replay the thread executes as many of them, whatever the loop does.
bool pause_yields(ThreadArea* area) {
  area->pauses++;
  if (recording()) return token_wanted() || signals_pending(area);
  if (control.mode != kModeReplay) return false;
  return replay_yield_follows(area, kYieldPause) && *(const uint64_t*)(replay_peek() + 1) <= area->pauses;
}

void enter_yield(CallFrame* frame, ThreadArea* area, YieldKind kind) {
  area->yield_kind = kind;
  area->trap_rip = frame->rip;
  frame->rip = (uint64_t)friday_enter_yield;
}

// The number of the point: of the loop site or of the `pause`.
static uint64_t passed(const ThreadArea* area, YieldKind kind) {
  return kind == kYieldLoop ? loops_passed(area) : area->pauses;
}

// A hash of the thread's address and registers, by which a replay finds out if it yields elsewhere.
static uint64_t point_hash(const CallFrame* f) {
  const uint64_t words[] = {f->rip, f->rsp, f->rax, f->rbx, f->rcx, f->rdx, f->rsi, f->rdi, f->rbp,
                            f->r8,  f->r9,  f->r10, f->r11, f->r12, f->r13, f->r14, f->r15};
  return hash_bytes(words, sizeof words, 0);
}

static void record_yield(CallFrame* frame, ThreadArea* area, YieldKind kind) {
  const bool spin = kind == kYieldSpin;
  const uint64_t arguments[] = {spin ? spin_found.steps : passed(area, kind),
                                spin ? spin_found.hash : point_hash(frame)};
  EventWriter writer(kYield, area, (uint16_t)kind, arguments, 2);
  if (spin) writer.part(kSpinPoint, &spin_found.point, sizeof spin_found.point);
  const uint64_t now = ticks_now();
  writer.commit(0, 0, now, now);
  if (!token_wanted() || !token_yield(area)) return;
  // Other processes have run meanwhile. What this thread does from here on comes after that, so it needs an event whose
  // gates a replay can wait at.
  EventWriter resumed(kYield, area, kYieldResumed, nullptr, 0);
  const uint64_t back = ticks_now();
  resumed.commit(0, 0, back, back);
}

static void replay_yield(CallFrame* frame, ThreadArea* area, YieldKind kind) {
  EventRecord* event = replay_expect(frame, area, kYield, (uint16_t)kind);
  const uint64_t want = *(const uint64_t*)(event + 1), count = passed(area, kind);
  if ((kind == kYieldPause || kind == kYieldLoop) && want != count)
    diverge(event, kDivergedArgument, 0, want, count, frame, area, kYield);
  if (kind != kYieldSpin && event->argument_count > 1) {
    const uint64_t there = ((const uint64_t*)(event + 1))[1], here = point_hash(frame);
    if (there != here) diverge(event, kDivergedArgument, 1, there, here, frame, area, kYield);
  }
  area->go = 0;
  replay_consume(event);
  replay_hand_over();
  replay_wait(area);
  event = replay_peek();
  if (!event || event->header.type != kYield || event->call != kYieldResumed) return;
  replay_begin(area);
  replay_consume(event);
}

extern "C" void friday_yield(CallFrame* frame) {
  ThreadArea* area = me();
  if (area->yield_kind == kStandsStill) return standby_stand(frame, area);
  const YieldKind kind = (YieldKind)area->yield_kind;
  // At a loop site none of the displaced instructions has been executed yet, so the thread is shown in front of them.
  const uint64_t back = frame->rip, shown = kind == kYieldLoop ? loop_original(back) : back;
  frame->previous = area->frame;
  frame->site = shown - 2;
  frame->rip = shown;  // a signal handler returns there as well
  area->frame = frame;
  signals_step_on(frame, area);
  bool handler = false;
  const bool yields = kind != kYieldLoop || loops_yield(area);
  if (yields && recording()) {
    record_yield(frame, area, kind);
    handler = signals_pending(area) && signals_deliver(frame, area, Moment::anywhere);
  } else if (on_standby && control.mode == kModeRecord) {
    handler = signals_pending(area) && signals_deliver(frame, area, Moment::anywhere);
  } else if (yields && control.mode == kModeReplay) {
    replay_yield(frame, area, kind);
    handler = replay_signal_follows(area) &&
              signals_deliver(frame, area, Moment::anywhere);  // one at a call's entry is delivered there
  }
  if (!handler) frame->rip = back;
  area->yield_kind = 0;
  area->frame = frame->previous;
}

// Yields behind a call that does not lend the token. A thread that makes only such calls would keep the token for ever.
void yield_behind_call(CallFrame* frame, ThreadArea* area) {
  if (area->borrowed) return;
  if (recording()) {
    if (!token_overdue()) return;
    area->yield_kind = kYieldCall;
    record_yield(frame, area, kYieldCall);
    area->yield_kind = 0;
  } else if (control.mode == kModeReplay) {
    if (replay_yield_follows(area, kYieldCall)) replay_yield(frame, area, kYieldCall);
  }
}

}  // namespace friday::shim
