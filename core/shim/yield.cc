// Handing the token over where the program makes no call: a thread that waits by `pause` for what another thread shall store
// would wait for ever, since that other thread does not run. At replay the turn is given away at the same point exactly.
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

static YieldKind yield_kind;  // of the yield under way; the token's holder owns it

// A `pause` is known by its count: whatever the loop around it does, the thread executes the same ones at replay.
bool pause_yields(ThreadArea* area) {
  area->pauses++;
  if (control.mode == kModeRecord) return live_threads > 1 && token_wanted();
  if (control.mode != kModeReplay) return false;
  const EventRecord* next = replay_peek();
  return next && next->header.type == kYield && next->header.thread == area->number && next->call == kYieldPause &&
         *(const uint64_t*)(next + 1) <= area->pauses;
}

void enter_yield(CallFrame* frame, ThreadArea* area, YieldKind kind) {
  yield_kind = kind;
  area->trap_rip = frame->rip;
  frame->rip = (uint64_t)friday_enter_yield;
}

extern "C" void friday_yield(CallFrame* frame) {
  ThreadArea* area = me();
  frame->previous = area->frame;
  frame->site = frame->rip - 2;
  area->frame = frame;
  if (control.mode == kModeRecord) {
    EventWriter writer(kYield, area, yield_kind, &area->pauses, 1);
    const uint64_t now = ticks_now();
    writer.commit(0, 0, now, now);
    token_yield(area);
  } else if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kYield, yield_kind);
    const uint64_t want = *(const uint64_t*)(event + 1);
    if (want != area->pauses) diverge(event, kDivergedArgument, 0, want, area->pauses, frame, area, kYield);
    area->go = 0;
    replay_consume(event);
    replay_hand_over();
    replay_wait(area);
  }
  area->frame = frame->previous;
}

}  // namespace friday::shim
