// The optional program friday-bitcode, which knows LLVM (core/cut/bitcode).
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// Runs it with these arguments; what it prints goes to standard error. Returns its exit code. Fails with not_found, and
// says how to build it, if it is neither beside the shim nor on the PATH.
Result<int> run_bitcode_tool(const std::vector<std::string>& arguments);

}  // namespace friday
