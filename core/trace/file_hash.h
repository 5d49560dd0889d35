// The hash that names the copy of a file in a recording (docs/trace-format.md).
#pragma once

#include <cstdint>

#include <xxhash.h>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace friday {

// XXH3-128 of the first `size` bytes of the file `fd`. Reads in pieces of bounded size and skips holes, which count as
// zeros. Adds every hashed byte to `progress`, if given.
Result<XXH128_hash_t> hash_of_contents(int fd, uint64_t size, Progress* progress = nullptr);

}  // namespace friday
