// The arguments of system calls as their man pages write them: flags, operations, signals and modes by name, numbers of
// files and processes with their sign. What has no name is shown as a number, so nothing of a value is lost.
// Pure; may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace friday {

// Argument `index` of the call, for example "O_RDONLY|O_CLOEXEC", "AT_FDCWD", "0644", "-1", "0x7ffd1000".
std::string argument_text(unsigned call, unsigned index, std::span<const uint64_t> arguments);

}  // namespace friday
