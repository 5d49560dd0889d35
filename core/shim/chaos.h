// `friday record --chaos` in the recorded process: rare interleavings become likelier, by what the kernel may do at any
// time. A thread is held back before a call, a turn of the token is shorter or longer, a read or write of a stream
// moves fewer bytes than the program has asked for, and a delivery comes later. The record of such a call looks like
// that of any other, so a replay does not know of chaos. chaos_draw.h has the decisions.
//
// All functions are called by the thread that makes the call, and only while `chaos_key` is not 0. make_call()
// (record_call.cc) is the only caller.
#pragma once

#include "core/shim/calls.h"
#include "core/shim/chaos_draw.h"

namespace friday::shim {

// Of this process (ChaosPlace::key): HelloReply::chaos_key, or in a forked child ForkReply::chaos_key. 0: off.
extern uint64_t chaos_key;

// What was decided about a call.
struct ChaosPlan {
  uint64_t before_ns = 0, after_ns = 0;  // waits before the call is made, and after it has received something
  Turn turn = Turn::usual;
};

// `shared`: other threads or processes can run while this call is made.
ChaosPlan chaos_plan(const CallFrame* frame, const ThreadArea* area, const CallInfo& info, bool shared);
// Makes the program's call like interruptible_call(), perhaps for fewer bytes, with the waits of the plan around it. A
// signal for the thread ends a wait. The token is lent, unless the thread is alone.
long chaos_call(ThreadArea* area, CallFrame* frame, const CallInfo& info, const ChaosPlan& plan);

}  // namespace friday::shim
