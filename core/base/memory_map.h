// The mappings of a process, as /proc/PID/maps has them. The one reader of that file in the core; the shim, which has
// no libc, has its own (core/shim/image.cc).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace friday {

struct MappedRange {
  uint64_t low = 0, high = 0;
  uint32_t protection = 0;  // PROT_ bits
  bool shared = false;
  uint64_t offset = 0;
  dev_t device = 0;
  uint64_t inode = 0;  // 0: of no file
  std::string path;    // as the kernel writes it: "[stack]", "/memfd:NAME (deleted)"; empty if it has none
};

// By address. An error if a line is not what the kernel writes.
Result<std::vector<MappedRange>> parse_memory_map(std::string_view text);
// Of the process with this directory, "/proc/PID" or one of its tasks'.
Result<std::vector<MappedRange>> read_memory_map(const std::string& directory);

}  // namespace friday
