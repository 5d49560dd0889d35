// Functions of the C library, executed as a whole: what they give and write is built of the bytes they look at. Each
// behaves as the real function for every argument for which the C standard (or POSIX, or the GNU C library) defines
// what it does. How long something is, and where something is found, is decided, as a loop would decide it byte by
// byte; whether bytes are equal, and how they compare, stays an expression.
#pragma once

#include "core/infer/protocol.h"
#include "core/infer/solver/symbolic.h"

namespace friday::infer {

enum class LibraryResult : uint8_t { done, no_memory, too_long };

// Executes the function whose first instruction has been reached, and returns from it. The registers that it may change
// by the calling convention keep their plain values and lose their shadows.
LibraryResult call_library_function(Symbolic& symbolic, Function function);

}  // namespace friday::infer
