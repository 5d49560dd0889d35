// Names for the codes among a system call's arguments that say what the call is to do, such as the request of ioctl(2)
// or the operation of seccomp(2). Only calls and codes at which a recording ends are listed; other codes are shown as
// numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace friday {

// Returns for example "SIOCETHTOOL, command ETHTOOL_PERQUEUE" or "SECCOMP_SET_MODE_FILTER"; empty if there are no
// codes. `codes` has the layout that codes_of in core/shim/codes.cc produces.
std::string code_text(unsigned call, std::span<const uint64_t> codes);

}  // namespace friday
