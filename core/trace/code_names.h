// Names of what a call is asked to do by a code among its arguments (the request of ioctl(2), the operation of
// seccomp(2)), of the calls and codes at which a recording ends. Numbers that have no name here are shown as numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace friday {

// `codes`: as shim's codes_of has them. "SIOCETHTOOL, command ETHTOOL_PERQUEUE", "SECCOMP_SET_MODE_FILTER"; empty
// without codes.
std::string code_text(unsigned call, std::span<const uint64_t> codes);

}  // namespace friday
