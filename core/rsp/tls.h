// Where a thread-local variable of a thread lies, from nothing but the node's memory: the job of libthread_db, which
// could not be loaded for a recorded libc that is not the one of this machine.
//
// glibc describes its own private layout in constants `_thread_db_*` that libc.so.6 exports for debuggers; the module
// id of a library is found by them in its link_map. The thread pointer and the dtv are the x86-64 ABI's.
#pragma once

#include "core/stop/node_control.h"

namespace friday {

// `link_map` is the address of the library's struct link_map (0: a static program), `offset` the variable's offset in
// its module's block. Errors say what is missing: another libc, or a block that the thread has not allocated yet.
Result<Addr> thread_local_address(NodeControl& node, ThreadId thread, Addr link_map, uint64_t offset);

// The thread's errno, by the symbol of that name that libc.so exports to its own libraries.
Result<Addr> errno_address(NodeControl& node, ThreadId thread);

}  // namespace friday
