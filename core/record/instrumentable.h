// Checks whether the dynamic loader will preload the shim into a program, and says why not. Used before a program is
// started, and when a recorded process is about to execute one.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/base/error.h"

namespace friday {

// Who executes the program: a file's privileges depend on the user, and its path on the root directory (`root` is empty
// or has no trailing slash).
struct Executor {
  uid_t user;
  std::string root;
  bool borrows = false;  // its effective user or group differs from the real one
};
Result<void> check_instrumentable(const std::string& path, const Executor& by);

}  // namespace friday
