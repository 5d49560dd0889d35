// A thread's registers in the form of the protocol.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <span>

#include "core/infer/protocol.h"

namespace friday::infer {

// `extended`: the XSAVE area in the standard format (Intel SDM volume 1, chapter 13), at least 576 bytes.
Registers register_file(const user_regs_struct& general, std::span<const std::byte> extended);

}  // namespace friday::infer
