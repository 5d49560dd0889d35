// Reports the failure of a subcommand (docs/errors.md lists the exit codes).
#pragma once

#include "console/say.h"
#include "core/base/error.h"

namespace friday {

enum ExitCode : int { kBadInput = 2, kDiverged = 3, kDied = 4, kInterrupted = 130 };

// Prints to standard error why `friday SUBCOMMAND` failed, and returns the matching exit code.
inline int complain(const char* subcommand, const Error& error) {
  say(stderr, "friday {}: {}\n", subcommand, describe(error));
  return error.code == ErrorCode::component_died ? kDied
         : error.code == ErrorCode::interrupted  ? kInterrupted
                                                 : kBadInput;
}

}  // namespace friday
