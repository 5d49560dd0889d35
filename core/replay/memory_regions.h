// The memory of a replayed process as a saved checkpoint describes it (saved_checkpoint.h): its mappings without
// Friday's own, and which of their pages the process has made its own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_map.h"
#include "core/replay/node.h"

namespace friday {

struct MemoryRegion : MappedRange {
  bool grows_down = false;   // MAP_GROWSDOWN
  bool has_private = false;  // some page is no longer that of the file, or was written to
  bool of_file() const { return inode != 0 && !shared; }
};

// The regions by address, without the trace, the schedule and friday-stub, which each process of a replay has.
Result<std::vector<MemoryRegion>> read_regions(ReplayNode& node);

// The addresses of the pages between `low` and `high` that are the process's own: neither those of a file or of shared
// memory, nor untouched. They rise.
Result<std::vector<uint64_t>> own_pages(ReplayNode& node, uint64_t low, uint64_t high);

}  // namespace friday
