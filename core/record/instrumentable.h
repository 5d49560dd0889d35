// How the shim gets into a program that is to be recorded, or why it cannot. Used before a program is started, and when
// a recorded process is about to execute one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// Who executes the program: a file's privileges depend on the user, and its path on the root directory (`root` is empty
// or has no trailing slash).
struct Executor {
  uid_t user;
  std::string root;
  bool borrows = false;  // its effective user or group differs from the real one
};

// How a program must be started.
struct Instrumentation {
  // The statically linked program that runs in the end, which the shim must load (core/shim/loader.cc). Empty: the
  // program's loader preloads the shim.
  std::string loaded;
  // If that is the interpreter of a script: the words that take the place of the script's first argument.
  std::vector<std::string> leading;
};
Result<Instrumentation> check_instrumentable(const std::string& path, const Executor& by);

}  // namespace friday
