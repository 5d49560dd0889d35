// What a function of the program can change, read from its code: found for small functions whose stores all go to their own
// stack frame or to variables at fixed addresses. A debugger's call of such a function needs no copy of the program's memory to be
// undone, and when it stores nowhere, leaves no trace.
//
// Reads code through NodeControl; keeps nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/stop/node_control.h"

namespace friday {

struct FunctionEffects {
  bool known = false;                                  // all that it can store to is in `stores` or in its frames
  std::vector<std::pair<uint64_t, uint64_t>> stores;   // address, size
  bool pure() const { return known && stores.empty(); }
};

FunctionEffects effects_of(NodeControl& node, Addr function);

}  // namespace friday
