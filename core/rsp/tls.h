// Finds thread-local variables using only the node's memory. This is normally the task of libthread_db, which cannot be
// loaded if the recorded libc is not the libc of this machine.
//
// glibc publishes its private layout for debuggers in symbols `_thread_db_*` of libc.so.6; they tell where a library's
// link_map holds its module id. The thread pointer and the dtv are specified by the x86-64 ABI.
#pragma once

#include "core/stop/node_control.h"

namespace friday {

// `link_map` is the address of the library's struct link_map (0 for a static program), and `offset` is the variable's
// offset in the module's block. Errors name what is missing, for example a libc other than glibc, or a block that the
// thread has not allocated yet.
Result<Addr> thread_local_address(NodeControl& node, ThreadId thread, Addr link_map, uint64_t offset);

// The address of the thread's errno, found by the symbol of that name that libc.so exports to glibc's other libraries.
Result<Addr> errno_address(NodeControl& node, ThreadId thread);

}  // namespace friday
