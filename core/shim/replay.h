// The replay of a trace: which thread runs, what the next event is and what it writes to memory, and the traps by which
// the core is told. The trace is mapped at format::kWindowAddress, and the thread of Control::turn works on it. An
// event stays the next one until replay_consume(). Nothing here returns after a divergence.
#pragma once

#include "core/shim/calls.h"

namespace friday::shim {

// ---- replay.cc
void replay_start();                 // before the program runs: waits until its first event may happen
void replay_wait(ThreadArea* area);  // waits until this thread may run
// Waits until this thread may run and the next event may happen (its gate is open and no stop is asked for).
void replay_begin(ThreadArea* area);
// The same, and compares the next event with what the thread does: `type` and `call`, and for a call its arguments, the
// memory that it reads and the state hash. Returns the event; for a call that was released, its return event.
format::EventRecord* replay_expect(CallFrame* frame, ThreadArea* area, format::RecordType type, uint16_t call);
format::EventRecord* replay_peek();                   // the next event; null at the end of the trace
void replay_end_of_trace();                           // if there is no next event, traps to the core (kTrapEndOfTrace)
[[noreturn]] void replay_exit(int code);              // the last event is done, and was the end of the process
void replay_end_if_cut();                             // the same, but only if Control::cut is set
void replay_apply(const format::EventRecord* event);  // writes the event's outputs to the program's memory
void replay_consume(format::EventRecord* event);      // the event is done; the one behind it is the next
// The next record of shared memory's contents from `offset` in the trace on, of those before the next event; null if
// there is none. `offset` moves behind it; 0 begins with the first one.
const format::SharedPagesRecord* replay_shared_pages(uint64_t* offset);
void replay_forked();     // in a forked child, which has a trace of its own
void replay_hand_over();  // lets the thread of the next event run
// Whether the next event is a signal for this thread that is delivered when the thread leaves the shim.
bool replay_signal_follows(const ThreadArea* area);
// Whether the next event is a yield of this kind by this thread.
bool replay_yield_follows(const ThreadArea* area, format::YieldKind kind);
inline bool is_signal_of(const format::EventRecord* event, const ThreadArea* area) {
  return event && event->header.type == format::kSignal && event->header.thread == area->number;
}
// Compares the result of a call that is made at replay too with the recorded one.
void replay_same(format::EventRecord* event, uint64_t want, uint64_t got, CallFrame* frame, ThreadArea* area);
// The contents of the event's part number `nth` of this kind, and its header if wanted; null if there is none.
const void* replay_part(const format::EventRecord* event, format::PartKind kind, unsigned nth,
                        format::PartHeader* header);
// Replays a call that calls.def describes in full, and delivers the signals that follow it. Returns its result.
long replay_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
// The replay cannot go on, for a reason that is no divergence. `what` and `detail` are shown to the user.
[[noreturn]] void replay_fail(const char* what, long detail);
void stop_if_wanted();                     // stops as long as the next event is not below Control::stop_at_event
void trap(TrapReason reason, int detail);  // stops at Control::trap_instruction until the core lets the thread go on
// Reports a divergence (DivergenceReport): the thread was to do `expected` and does `type` with the frame's call.
void diverge(format::EventRecord* expected, uint32_t kind, uint32_t which, uint64_t want, uint64_t got,
             CallFrame* frame, ThreadArea* area, uint32_t type);

// ---- restoring.cc: payload that the recording leaves out (Control::restoring)
void restore_sent(const CallFrame* frame);  // at the entry of the next event's call
// Puts it where the event has written the memory part at `address`.
void restore_received(const format::EventRecord* event, uint64_t address, uint64_t size);

// ---- thread_names.cc
// Keeps the name that a replayed call has given to a thread, if it is a call that names threads.
void replay_thread_name(ThreadArea* area, uint64_t call, const uint64_t* arguments, long result);
// Gives a new thread the name of the one that has made it.
void replay_thread_started(const ThreadArea* maker, ThreadArea* made);

}  // namespace friday::shim
