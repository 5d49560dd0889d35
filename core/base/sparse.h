// Sparse files, such as databases and disk images, which occupy less space on disk than their size.
#pragma once

#include <cstdint>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace friday {

struct Extent {
  uint64_t from = 0, to = 0;
};

// The first extent with data at or after `at`, limited to `size`; empty, at `size`, if only a hole is left. On a file
// system that cannot report holes, everything counts as data.
Extent next_data(int fd, uint64_t at, uint64_t size);

// Copies `size` bytes of `from` to the empty file `to`. Holes stay holes, and if the file system supports shared
// extents, no data is copied. Adds the copied bytes to `progress`, if given.
Result<void> copy_contents(int from, int to, uint64_t size, Progress* progress = nullptr);

}  // namespace friday
