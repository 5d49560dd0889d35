// Standby: the process runs unrecorded until the collector wants a part of it (FileHeader::wanted), which then begins
// like any other (part.cc). Nothing stands in its trace so far, and its threads run without the token. What the shim
// must know of the process when the part begins (threads, signal handlers and masks, patched code, shared memory) it
// keeps as while recording: for calls that change any of it the thread takes the token, as a lock, and the events that
// are written meanwhile are dropped (trace.cc). All other calls go to the kernel at once.
//
// For the image all threads must stand still in the shim, at a call that they have not made yet or between two
// instructions of the program. There each waits for its first turn, like a new thread, and it goes on like one.
#pragma once

#include "core/shim/calls.h"
#include "core/shim/runtime.h"

namespace friday::shim {

// Makes the call, without the token. False: the call is still to be made; a part has begun, which records it, and the
// thread has the token, or the recording has ended.
bool standby_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
// In a handler that has interrupted the program's own code, with its registers in `frame`: if all threads must stop,
// changes the frame so that this thread enters friday_yield and stops in standby_stand; otherwise gives back a token
// that the thread still has from an earlier recording. Returns whether the frame has changed.
bool standby_interrupted(CallFrame* frame, ThreadArea* area);
// In a handler that has carried out an instruction for the program: has a signal delivered that arrived meanwhile.
void standby_deliver(CallFrame* frame, ThreadArea* area);
// Called by friday_yield for a thread whose yield_kind is kStandsStill: stops it until standby_go_on(), or delivers the
// signal that has arrived during a call made straight.
void standby_stand(CallFrame* frame, ThreadArea* area);
inline constexpr uint32_t kStandsStill = 0x100;  // ThreadArea::yield_kind of such a thread
// In ThreadArea::call_number: a signal has interrupted the call that was made straight (entry.S).
inline constexpr uint32_t kInterrupted = 1u << 31;

// The process is on standby from now on, or no longer.
void standby_begins();
void standby_ends();
// From now on every call passes the shim: it keeps something for the program that any call may have to see.
void standby_looks_at_all();

// A new thread takes the token before its first instruction, and keeps it only if a part has begun meanwhile.
void standby_first_turn(ThreadArea* area);

// Called by the thread that has the token: halt() asks all others to stop, go_on() lets them run. Before it stops, a
// thread notes what the image needs of it (part_note_thread); threads must be poked until they do.
void standby_halt();
void standby_go_on();
// Whether the thread has stopped, so that its registers can be read.
bool standby_stands(const ThreadArea* area);

}  // namespace friday::shim
