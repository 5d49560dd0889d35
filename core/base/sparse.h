// Files with holes: those of databases and disk images, larger by name than they are on the disk.
#pragma once

#include <cstdint>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace friday {

struct Extent {
  uint64_t from = 0, to = 0;
};

// The first part of the file at or behind `at` that has data, within `size`; empty, at `size`, where only a hole is
// left. A file system that cannot tell has data everywhere.
Extent next_data(int fd, uint64_t at, uint64_t size);

// Copies `size` bytes of `from` to the empty file `to`. Holes stay holes, and where the file system lets files share
// their blocks nothing is copied at all. `progress` (if given) is told of `size` bytes.
Result<void> copy_contents(int from, int to, uint64_t size, Progress* progress = nullptr);

}  // namespace friday
