// The numbers of the system calls of x86-64 by name, from calls.def: sys::recvfrom. Freestanding.
#pragma once

#include <stdint.h>

namespace friday::shim::sys {

enum Number : uint16_t {
#define CALL(number, name, ...) name = number,
#define SPECIAL(number, name, ...) CALL(number, name)
#define REFUSE(number, name, why) CALL(number, name)
#include "core/shim/calls.def"
#undef REFUSE
#undef SPECIAL
#undef CALL
};

}  // namespace friday::shim::sys
