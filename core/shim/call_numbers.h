// The numbers of the system calls of x86-64 by name, such as sys::recvfrom, from calls.def. Freestanding.
#pragma once

#include <stdint.h>

namespace friday::shim::sys {

enum Number : uint16_t {
#define CALL(number, name, ...) name = number,
#include "core/shim/calls.def"
};

}  // namespace friday::shim::sys
