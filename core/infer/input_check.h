// Compares the memory that a call reads with the hash of it that the recording has: the only thing that the recording
// says about what a program has sent, which file it has opened, and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/error.h"
#include "core/trace/reader.h"

namespace friday::infer {

// Memory at the end of a run.
struct Look {
  bool exists = false;   // all of it; else there are no bytes
  bool depends = false;  // some of it, on missing bytes
  std::vector<std::byte> bytes;
};
using LookAt = std::function<Result<Look>(uint64_t address, uint64_t length)>;

enum class Inputs : uint8_t {
  same,
  different,
  depend,   // on missing bytes, so their hash says nothing
  unknown,  // what the call reads is not told by its line in calls.def alone, or is no memory
};

// `event`: a call, whose arguments are as recorded.
Result<Inputs> compare_inputs(EventView event, const LookAt& look_at);

}  // namespace friday::infer
