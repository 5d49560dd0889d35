// Handing the token over where the program makes no call: a thread that waits by `pause` for what another thread shall store
// would wait for ever, since that other thread does not run. At replay the turn is given away at the same point exactly.
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

// A `pause` is known by its count: whatever the loop around it does, the thread executes the same ones at replay.
bool pause_yields(ThreadArea* area) {
  area->pauses++;
  if (control.mode == kModeRecord) return token_wanted() || signals_pending(area);
  if (control.mode != kModeReplay) return false;
  const EventRecord* next = replay_peek();
  return next && next->header.type == kYield && next->header.thread == area->number && next->call == kYieldPause &&
         *(const uint64_t*)(next + 1) <= area->pauses;
}

void enter_yield(CallFrame* frame, ThreadArea* area, YieldKind kind) {
  area->yield_kind = kind;
  area->trap_rip = frame->rip;
  frame->rip = (uint64_t)friday_enter_yield;
}

extern "C" void friday_yield(CallFrame* frame) {
  ThreadArea* area = me();
  frame->previous = area->frame;
  frame->site = frame->rip - 2;
  area->frame = frame;
  if (control.mode == kModeRecord) {
    const bool spin = area->yield_kind == kYieldSpin;
    const uint64_t arguments[] = {spin ? spin_found.steps : area->pauses, spin_found.hash};
    EventWriter writer(kYield, area, (uint16_t)area->yield_kind, arguments, spin ? 2 : 1);
    if (spin) writer.part(kSpinPoint, &spin_found.point, sizeof spin_found.point);
    const uint64_t now = ticks_now();
    writer.commit(0, 0, now, now);
    if (token_wanted() && token_yield(area)) {
      // What the thread does from here on is behind what other processes did: that needs an event to wait at.
      EventWriter resumed(kYield, area, kYieldResumed, nullptr, 0);
      const uint64_t back = ticks_now();
      resumed.commit(0, 0, back, back);
    }
    if (signals_pending(area)) signals_deliver(frame, area, Moment::anywhere);
  } else if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kYield, (uint16_t)area->yield_kind);
    const uint64_t want = *(const uint64_t*)(event + 1);
    if (area->yield_kind == kYieldPause && want != area->pauses) diverge(event, kDivergedArgument, 0, want, area->pauses, frame, area, kYield);
    area->go = 0;
    replay_consume(event);
    replay_hand_over();
    replay_wait(area);
    const EventRecord* next = replay_peek();
    if (next && next->header.type == kYield && next->call == kYieldResumed) {
      event = replay_peek();
      replay_begin(area);
      replay_consume(event);
      next = replay_peek();
    }
    if (is_signal_of(next, area)) signals_deliver(frame, area, Moment::anywhere);
  }
  area->frame = frame->previous;
}

}  // namespace friday::shim
