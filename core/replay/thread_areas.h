// Where the shim of a replayed process keeps what belongs to a thread (shim::ThreadArea). The thread's number names it
// as long as the process lives; the area goes to another thread when it has ended.
#pragma once

#include <cstdint>
#include <optional>

#include "core/replay/process.h"
#include "core/shim/shim_abi.h"

namespace friday {

// The address of the thread's area; none if the process has no such thread any more, or not yet. The process is
// stopped.
std::optional<uint64_t> thread_area(const TracedProcess& process, const shim::Control& control, uint32_t number);

}  // namespace friday
