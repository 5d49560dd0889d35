// Finds which memory a function of the program can change, by reading its code. Succeeds for small functions whose
// stores all go to their own stack frames or to variables at fixed addresses, and that call only functions of the same
// kind or C library functions whose effects ISO C defines. When the debugger calls such a function, no copy of the
// program's memory is needed to undo the call; a function without stores leaves nothing to undo.
//
// Reads code through NodeControl and keeps no state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/stop/node_control.h"

namespace friday {

struct FunctionEffects {
  bool known = false;  // everything that it may store to is in `stores` or in its stack frames
  std::vector<std::pair<uint64_t, uint64_t>> stores;  // address, size
  bool sets_errno = false;                            // it may set errno
  bool final = true;  // false: it calls a function that the dynamic loader has not bound yet; ask again later
};

// The name of the C library function that a slot of the global offset table points to; none if it points to anything
// else.
using LibcFunction = std::function<std::optional<std::string>(uint64_t slot)>;

FunctionEffects effects_of(NodeControl& node, Addr function, const LibcFunction& libc_function);

}  // namespace friday
