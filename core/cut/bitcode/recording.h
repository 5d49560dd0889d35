// The build of a program that is recorded across a cut, and replayed by itself (core/cut/runtime).
#pragma once

#include <string>

#include <llvm/IR/Module.h>

#include "core/base/error.h"
#include "core/cut/annotations.h"
#include "core/cut/bitcode/record.h"
#include "core/cut/plan.h"

namespace friday::cut {

// 32 hex digits: of the plan and the program that it was made of. A log has it, and fits no other build.
std::string recording_fingerprint(const Plan& plan);

// Instruments a module in its normal form by the plan:
// - inside, loads of values that may be outside ask the runtime, which logs them or has them from the log; calls to the
//   outside are logged, and not made at replay; writes to memory outside are left out at replay;
// - outside, what is written inside is logged, and calls that lead inside are logged by the function that is entered:
//   its code moves to a function NAME.inside, and NAME is an entry that the compiler makes;
// - variables inside and outside get sections of their own.
// Without recording, each such place costs the test of one byte. Fails with unsupported, and the functions and lines,
// for what cannot be recorded; with bad_input if the plan is of another build.
Result<void> add_recording(llvm::Module& module, const Record& record, const Plan& plan,
                           const Annotations& annotations);

}  // namespace friday::cut
