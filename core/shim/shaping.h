// Messages are held back at their sender so that a certain order of messages comes true (`friday force`). A message that
// may be one of the order, as it contains one of the words that the collector has put into the ShapeArea, is not sent
// by the program's call: the collector gets its bytes and a duplicate of the descriptor, and sends it, at once or
// later. The call has returned meanwhile, as if the bytes were in the kernel's buffer, so that to the receiver it is a
// slow network. As long as the collector has something of a connection, all that follows on it goes the same way.
//
// To know when a message was handled, the bytes that a process has received of each connection are counted, and how
// many of these it has handled.
//
// Streams (TCP, Unix) and pipes only. Messages with descriptors or out-of-band bytes, sendmmsg(2), sendfile(2) and
// splice(2) are never held; where they follow a message that is, the collector lets that go first.
#pragma once

#include "core/shim/calls.h"
#include "core/shim/runtime.h"

namespace friday::shim {

bool shaping();  // whether messages are, or were, to be held back in this recording

// Under the token, before a call that sends or copies is made. True: the collector has the message, `result` is that of
// the call, which is not to be made.
bool shape_takes(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long* result);
// After a call that has sent bytes itself, or has received some.
void shape_moved(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long result);
// The thread is about to make a call that may wait: what it has received is handled.
void shape_waits(ThreadArea* area);
// Before shutdown(2). True: the collector will do it behind what it holds, `result` is that of the call.
bool shape_shuts(const CallFrame* frame, long* result);
// The program closes the descriptor, or it becomes another file. Before that is done.
void shape_closes(int fd);
void shape_forked();  // in a forked child, before it goes on

}  // namespace friday::shim
