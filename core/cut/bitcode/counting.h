// The build of a program that counts for a profile (core/cut/counts.h).
#pragma once

#include <llvm/IR/Module.h>

#include "core/base/error.h"
#include "core/cut/bitcode/record.h"

namespace friday::cut {

// Puts a counter into each block and for each length of a module in its normal form. The module's counters are a
// variable that looks as a file of counts does, in pages of its own and in the section friday_counts:
// counting_runtime.cc maps a file in its place. Counters are not atomic: threads that run the same block at the same
// time may lose some.
Result<void> add_counters(llvm::Module& module, const Record& record);

}  // namespace friday::cut
