// How a subcommand ends that did not do what was asked (docs/errors.md lists the exit codes).
#pragma once

#include "console/say.h"
#include "core/base/error.h"

namespace friday {

enum ExitCode : int { kBadInput = 2, kDiverged = 3, kDied = 4 };

// Says on standard error what kept `friday SUBCOMMAND` from its work, and gives its exit code.
inline int complain(const char* subcommand, const Error& error) {
  say(stderr, "friday {}: {}\n", subcommand, describe(error));
  return error.code == ErrorCode::component_died ? kDied : kBadInput;
}

}  // namespace friday
