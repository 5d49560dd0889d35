// The hash by which a recording names the copy of a file (docs/trace-format.md).
#pragma once

#include <cstdint>

#include <xxhash.h>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace friday {

// XXH3-128 of the first `size` bytes. In pieces, whatever the size; what is a hole is not read. `progress` (if given)
// is told of `size` bytes.
Result<XXH128_hash_t> hash_of_contents(int fd, uint64_t size, Progress* progress = nullptr);

}  // namespace friday
