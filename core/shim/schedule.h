// A schedule (FileHeader::features, kFeatureSchedule): the trace of a process of which only communication is kept. The
// process runs like one on standby (standby.h), from its start or since that was wanted (part.cc). For a call that
// sends, receives, connects, accepts, or ends a connection, the thread takes the token and records the call as usual,
// with the first bytes of what was moved; all other calls go to the kernel at once. Since a call that sends is written
// before its thread gives the token up, and one that receives before its thread goes on, the order of the events
// respects what the threads of the process can know of each other.
#pragma once

#include "core/shim/calls.h"
#include "core/shim/runtime.h"

namespace friday::shim {

extern uint32_t keeps_schedule;  // not 0: only a schedule is kept
extern uint32_t first_bytes;     // FileHeader::first_bytes

// Called once the process has a trace, before standby_begins(): reads from its header what is to be kept.
void schedule_begins();
// Whether a call of this number can be one that is kept.
bool schedule_may_keep(uint64_t call);
// Whether this call is to be recorded. If not, and it gives back a descriptor, that is noted. Without the token.
bool schedule_wants(const CallFrame* frame, const ThreadArea* area, const CallInfo& info);
// Whether an event becomes part of the trace. `arguments` may be null for events that are no calls.
bool schedule_keeps(format::RecordType type, uint64_t call, const uint64_t* arguments);

}  // namespace friday::shim
