// The name of a thread, as the program has set it. It is kept at replay only, in a part of the thread's area
// (shim_abi.h, ThreadArea) that is zero in images of shims that do not know of it.
#pragma once

#include "core/shim/shim_abi.h"

namespace friday::shim {

struct ThreadName {
  char text[16];  // ends with NUL; empty: the program has set none
  // The thread whose name this one sets by writing to a descriptor: the tid, 0 if there is none, and the descriptor.
  uint32_t names_tid, names_by;
};

// Behind the ThreadArea, at the end of the first page of the area, which stays mapped when the thread has ended.
inline constexpr uint64_t kThreadNameOffset = 0x1000 - sizeof(ThreadName);
static_assert(sizeof(ThreadArea) <= kThreadNameOffset);

}  // namespace friday::shim
