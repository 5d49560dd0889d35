// What a function of the program can change, read from its code: found for small functions whose stores all go to their
// own stack frame or to variables at fixed addresses, and that call others of that kind, or functions of the C library
// of which ISO C says what they change. A debugger's call of such a function needs no copy of the program's memory to
// be undone, and when it stores nowhere, leaves no trace.
//
// Reads code through NodeControl; keeps nothing.
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
  bool known = false;                                 // all that it can store to is in `stores` or in its frames
  std::vector<std::pair<uint64_t, uint64_t>> stores;  // address, size
  bool sets_errno = false;                            // it may
  bool final = true;  // false: calls a function that the loader has not bound yet; to be asked again
};

// The name of the function of the C library that a slot of the global offset table leads to; none if it leads
// elsewhere.
using LibcFunction = std::function<std::optional<std::string>(uint64_t slot)>;

FunctionEffects effects_of(NodeControl& node, Addr function, const LibcFunction& libc_function);

}  // namespace friday
