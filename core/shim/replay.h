// The replay of a trace: whose turn it is, what comes next and what it puts into memory, and the traps by which the
// core learns of it.
#pragma once

#include "core/shim/calls.h"

namespace friday::shim {

// ---- replay.cc
void replay_start();                 // before the program runs: waits until its first event may happen
void replay_wait(ThreadArea* area);  // until it is this thread's turn
format::EventRecord* replay_expect(CallFrame* frame, ThreadArea* area, format::RecordType type, uint16_t call);
format::EventRecord* replay_peek();
void replay_end_of_trace();           // stands there, behind what others did before, if nothing follows
void replay_begin(ThreadArea* area);  // waits until the next event is this thread's and may happen
void replay_consume(format::EventRecord* event);
void replay_end_if_cut();  // Control::cut: not behind the last event
void replay_apply(const format::EventRecord* event);
// Contents of shared memory in front of the event at the cursor: the next record of them from `offset` on (0: the
// first).
const format::SharedPagesRecord* replay_shared_pages(uint64_t* offset);
void replay_forked();  // in the child: nothing was seen yet
void replay_hand_over();
// The next event is a signal's for this thread, due on the way out of what it does now.
bool replay_signal_follows(const ThreadArea* area);
// The next event is this thread's giving its turn away, at a place of this kind.
bool replay_yield_follows(const ThreadArea* area, format::YieldKind kind);
inline bool is_signal_of(const format::EventRecord* event, const ThreadArea* area) {
  return event && event->header.type == format::kSignal && event->header.thread == area->number;
}
// A call that is made again must come to what it came to.
void replay_same(format::EventRecord* event, uint64_t want, uint64_t got, CallFrame* frame, ThreadArea* area);
const void* replay_part(const format::EventRecord* event, format::PartKind kind, unsigned nth,
                        format::PartHeader* header);
long replay_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
[[noreturn]] void replay_fail(const char* what, long detail);
void trap(TrapReason reason, int detail);
void diverge(format::EventRecord* expected, uint32_t kind, uint32_t which, uint64_t want, uint64_t got,
             CallFrame* frame, ThreadArea* area, uint32_t type);

}  // namespace friday::shim
