// What calls.def says of a call besides its operands: how it waits, which bytes of a channel it moves, which
// descriptors it makes and ends, and when its effect outside the process takes place. Freestanding: the shim reads it
// while recording, core/trace afterwards.
#pragma once

#include <stdint.h>

namespace friday::shim {

enum CallFlag : uint32_t {
  kQuick = 1 << 0,    // returns at once as a rule: waiters for the token are not woken for it (a hint, never relied on)
  kRestart = 1 << 1,  // restarted by the kernel after a handler with SA_RESTART (signal(7))
  kAlways = 1 << 2,   // outputs are written on failure too
  kPathIn = 1 << 3,   // the first input is a path: kept for people to read

  // Bytes of the channel behind the descriptor in argument 0. A call that takes them has them in its first output, one
  // that gives them in its first input; the second output or input is the address of the other side, if the call names
  // it.
  kIn = 1 << 4,
  kOut = 1 << 5,
  kFlags2 = 1 << 6,  // argument 2 holds MSG_ flags
  kFlags3 = 1 << 7,  // argument 3 does
                     // Both kIn and kOut: which of them, the mode of the descriptor says (vmsplice).
  kCopies = 1 << 8,  // bytes go from one channel to another inside the kernel: COPIES(from, to, length)

  kOpens = 1 << 9,        // the result is a new descriptor,
  kNamed = 1 << 10,       //   whose object is described at once: others are when they first move bytes
  kAccepts = 1 << 11,     //   of a connection that another process asked for
  kDuplicates = 1 << 12,  // the result is the descriptor in argument 0 once more
  kOpensPair = 1 << 13,   // two new descriptors, written as the only output
  kCloses = 1 << 14,      // the descriptor in argument 0 ends; of close_range all from there to argument 1
  kBinds = 1 << 15,       // the socket in argument 0 has another address or state afterwards, and is described again

  kKeepsSource = 1 << 17,  // of kCopies: the bytes can be read once more where they came from

  kOutgoing =
      1 << 16,  // the effect outside the process takes place at the entry, as that of all calls that give bytes away
};

// Of kCopies the arguments that hold the two descriptors and how many bytes are asked for.
constexpr uint32_t COPIES(unsigned from, unsigned to, unsigned length) {
  return kCopies | length << 20 | from << 24 | to << 28;
}
constexpr unsigned copies_length(uint32_t flags) { return flags >> 20 & 15; }
constexpr unsigned copies_from(uint32_t flags) { return flags >> 24 & 15; }
constexpr unsigned copies_to(uint32_t flags) { return flags >> 28; }

// Whether others can see what the call does from its entry on; of the rest the caller sees something at its return.
constexpr bool is_outgoing(uint32_t flags) { return flags & (kOut | kCopies | kOutgoing); }

}  // namespace friday::shim
