// A check that no other way of recording has: where the trace of a process is cut into parts, the start image of the
// next part was taken of the recorded process, so the memory to which the replay of the part before has come must equal
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/error.h"

namespace friday {

class ReplayNode;
class TraceReader;

// The first bytes that differ: as the start image has them, and as the replay has left them.
struct Discontinuity {
  uint64_t address = 0;
  std::vector<std::byte> recorded, replayed;
};

// Compares the memory of `node`, which has completed its trace, with the start image of `next`, its next part. Code is
// left out, because a debugger may have changed it; so is Friday's own memory, and what calls under way at the cut had
// already written.
Result<std::optional<Discontinuity>> find_discontinuity(ReplayNode& node, const TraceReader& next);

}  // namespace friday
