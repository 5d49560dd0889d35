// Whether the loader will preload the shim into a program, and if not why: asked before a program is started, and when
// a recorded process is about to execute one.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/base/error.h"

namespace friday {

// Who executes it: what a file's privileges are worth depends on the user, and where a name leads on the root directory
// (empty, or without a slash at its end).
struct Executor {
  uid_t user;
  std::string root;
  bool borrows = false;  // its effective user or group is not the real one
};
Result<void> check_instrumentable(const std::string& path, const Executor& by);

}  // namespace friday
