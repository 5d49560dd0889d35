// The build of a program that checks the analysis: it notes at which memory each access of the facts really is, and the
// analysis must have predicted it (observed.h). Slow: each access looks its address up.
#pragma once

#include <llvm/IR/Module.h>

#include "core/base/error.h"
#include "core/cut/bitcode/record.h"

namespace friday::cut {

// Puts calls of observing_runtime.cc into a module in its normal form: before each access, and where variables and the
// memory of allocators begin and end. Fails if the module has more accesses, calls or objects than the ids of a file of
// observations can tell apart.
Result<void> observe_accesses(llvm::Module& module, const Record& record);

}  // namespace friday::cut
