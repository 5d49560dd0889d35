// Messages are held back at their sender so that a certain order of messages comes true (`friday force`). A message
// that may be one of the order, as it contains one of the words that the collector has put into the ShapeArea, is not
// sent by the program's call: the collector gets its bytes and a duplicate of the descriptor, and sends it, at once or
// later. The call has returned meanwhile, as if the bytes were in the kernel's buffer, so that to the receiver it is a
// slow network. As long as the collector has something of a connection, all that follows on it goes the same way.
//
// To know when a message was handled, the bytes that a process has received of each connection are counted, and how
// many of these it has handled.
//
// Streams (TCP, Unix), pipes and datagrams of UDP. Messages with descriptors or out-of-band bytes, sendmmsg(2),
// sendfile(2) and splice(2) are never held; where they follow a message that is, the collector lets that go first. A
// datagram that is held is overtaken by those behind it, as networks do.
#pragma once

#include "core/shim/calls.h"
#include "core/shim/runtime.h"

namespace friday::shim {

void shape_begins();     // once the process has the TokenArea, or begins to be recorded
void shape_stands_by();  // it is not recorded any more
bool shaping();          // whether messages are, or were, to be held back in this recording

// What becomes of a call while messages are held back.
enum class Shaped {
  no,     // it is made as usual
  taken,  // the collector makes it, now or later
  waits,  // it cannot be held back, and has to come behind what is: shape_drain() first
};
// Under the token, before the call is made. For `taken`, `result` is that of the call.
Shaped shape_call(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long* result);
// Without the token: waits until the collector has sent all that it has of the connection of the call.
void shape_drain(const CallFrame* frame, const CallInfo& info);
// After a call that has sent bytes itself, or has received some.
void shape_moved(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long result);
// The thread is about to end: what it has received is handled.
void shape_waits(ThreadArea* area);
// The thread is about to make a call for which shape_may_wait(): what it has received is handled, unless it waits for
// one other connection, as for the answer to a question of its own.
void shape_waits_in(const CallFrame* frame, ThreadArea* area, const CallInfo& info);
// Whether the call may wait for something that another process does. Without the token.
bool shape_may_wait(const CallFrame* frame, const CallInfo& info);
// The program closes the descriptor, or it becomes another file. Before that is done.
void shape_closes(int fd);
void shape_forget(int fd);  // its number may be that of another file from now on
void shape_forked();        // in a forked child, before it goes on
void shape_ends();          // the recording of the process ends: what is held of its connections is sent first

}  // namespace friday::shim
