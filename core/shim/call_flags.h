// The flags of a system call in calls.def: whether it blocks, which bytes it moves through a channel, which descriptors
// it creates and closes, and when its effect outside the process takes place. Freestanding: the shim reads them while
// recording, core/trace afterwards.
#pragma once

#include <stdint.h>

namespace friday::shim {

enum CallFlag : uint32_t {
  kQuick = 1 << 0,    // usually does not block, so no waiter for the token is woken for it. Only a hint
  kRestart = 1 << 1,  // the kernel makes it again after a handler with SA_RESTART (signal(7))
  kAlways = 1 << 2,   // outputs are written on failure too
  kPathIn = 1 << 3,   // the first input is a path, which is recorded for readers of the trace

  // The call moves bytes through the channel of the descriptor in argument 0. kIn: the program receives them, in the
  // first output. kOut: it sends them, from the first input. The second output or input is the peer's address if the
  // call has one. With both flags, the descriptor's access mode says which one applies (vmsplice(2)).
  kIn = 1 << 4,
  kOut = 1 << 5,
  kFlags2 = 1 << 6,  // argument 2 has MSG_ flags
  kFlags3 = 1 << 7,  // argument 3 has MSG_ flags
  kCopies = 1 << 8,  // the kernel copies bytes from one channel to another; set by COPIES()

  kOpens = 1 << 9,        // the result is a new descriptor
  kNamed = 1 << 10,       // kOpens: its channel is described at once; others are when they first move bytes
  kAccepts = 1 << 11,     // kOpens: of a connection that another process has requested
  kDuplicates = 1 << 12,  // the result is a duplicate of the descriptor in argument 0
  kOpensPair = 1 << 13,   // the only output is a pair of new descriptors
  kCloses = 1 << 14,      // closes the descriptor in argument 0
  kBinds = 1 << 15,       // changes the address or the state of the socket in argument 0, which is described again

  kKeepsSource = 1 << 17,  // kCopies: the bytes can still be read from the source

  // Closes all descriptors from the one in argument 0 to the one in argument 1, unless argument 2 has
  // CLOSE_RANGE_CLOEXEC: then they are closed by the next execve(2).
  kClosesRange = 1 << 18,

  // The effect outside the process takes place at the call's entry. This holds for all calls that send bytes, too.
  kOutgoing = 1 << 16,
};

// The value for kCopies: the numbers of the arguments with the source's descriptor, the target's and the length.
constexpr uint32_t COPIES(unsigned from, unsigned to, unsigned length) {
  return kCopies | length << 20 | from << 24 | to << 28;
}
constexpr unsigned copies_length(uint32_t flags) { return flags >> 20 & 15; }
constexpr unsigned copies_from(uint32_t flags) { return flags >> 24 & 15; }
constexpr unsigned copies_to(uint32_t flags) { return flags >> 28; }

// Whether the call can have an effect on others from its entry on. All other calls take effect for the caller only, at
// their return.
constexpr bool is_outgoing(uint32_t flags) { return flags & (kOut | kCopies | kOutgoing); }

}  // namespace friday::shim
