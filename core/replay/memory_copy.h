// A copy of all memory that a node's process can write, taken before a debugger's call and put back when the call fails:
// pages that changed, and mappings that came or went. Friday's own areas in the process are part of it, since the call uses them,
// but not the trace, the schedule and the stub.
//
// The node stands from take() to restore(), but for the one thread that executes the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/replay/node.h"

namespace friday {

class MemoryCopy {
 public:
  // unsupported when there is more than can be copied for a call.
  static Result<MemoryCopy> take(ReplayNode& node);
  // How many pages were put back.
  Result<size_t> restore(ReplayNode& node) const;

 private:
  struct Range {
    uint64_t low, high;
    uint32_t protection;
    bool writable;  // is copied; others are only mapped
    bool sparse;    // pages that are not among the runs hold zeros
  };
  struct Run {
    uint64_t low;
    std::vector<std::byte> bytes;
  };
  static Result<std::vector<Range>> ranges_of(ReplayNode& node);
  Result<void> restore_mappings(ReplayNode& node) const;

  std::vector<Range> ranges_;  // ascending
  std::vector<Run> runs_;
};

}  // namespace friday
