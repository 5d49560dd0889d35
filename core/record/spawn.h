// Starts one program of a group, under the shim or without it.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <string>

#include "core/base/error.h"
#include "core/record/launch.h"
#include "core/record/network.h"

namespace friday {

// The path of a file to which output is appended: a relative one is relative to the recording.
std::string output_path(const std::string& path, const std::string& recording);

// fork and exec. Errors of the child are returned through a pipe, so that the caller can report, for example, a missing
// file. `descriptors` and `mask` are the original limit and signal mask, which the program shall get; this process has
// changed its own. `place`: the host on which the program runs; null if the group has no network of its own.
Result<pid_t> spawn(const ProgramSpec& program, const std::string& path, const LaunchOptions& options, int socket,
                    const rlimit& descriptors, const sigset_t& mask, const HostPlace* place);

}  // namespace friday
