// Builds a linked file again from its bitcode, with a change in each module: optimised by the same options, linked by
// the same command. The modules take the place of the objects that they were compiled into; whatever else was linked
// must still be where it was.
#pragma once

#include <functional>
#include <string>

#include <llvm/IR/Module.h>

#include "core/base/error.h"
#include "core/cut/bitcode/program.h"

namespace friday::cut {

struct Relink {
  std::string output;
  unsigned jobs = 1;    // compilers at a time
  std::string runtime;  // an object beside this tool that is linked in; empty: none
  bool fixed = false;   // the program is loaded where the linker puts it (no PIE)
  // Changes a module, which is in its normal form.
  std::function<Result<void>(llvm::Module&, const Record&)> change;
};

Result<void> relink(const LinkedFile& file, const Relink& how);

// The options of a module's compiler, without those that write other files or choose the kind of output.
std::vector<std::string> options_to_compile(const Record& module);

}  // namespace friday::cut
