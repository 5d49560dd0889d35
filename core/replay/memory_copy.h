// A copy of all memory that a node's process can write, taken before a debugger's call. When the call fails it is put
// back: pages that changed, and mappings that came or went. When it comes back, the copy tells whether it has changed
// anything at all. Friday's own areas in the process are part of it, since the call uses them, but not the trace, the
// schedule and the stub.
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
  // Whether the program would find its mappings and its memory as they were. What lies below `stack_pointer` on its
  // stack is dead, and Friday's own memory is not the program's.
  Result<bool> unchanged(ReplayNode& node, uint64_t stack_pointer) const;

 private:
  struct Range {
    uint64_t low, high;
    uint32_t protection;
    bool writable;  // is copied; others are only mapped
    bool sparse;    // pages that are not among the runs hold zeros
    bool operator==(const Range&) const = default;
  };
  struct Run {
    uint64_t low;
    std::vector<std::byte> bytes;
  };
  static Result<std::vector<Range>> ranges_of(ReplayNode& node);
  Result<void> restore_mappings(ReplayNode& node) const;
  // Calls `use(address, now, then)`, which returns Result<bool>, for each page that differs, until it returns false.
  template <typename Use>
  Result<void> each_changed(ReplayNode& node, Use use) const;

  std::vector<Range> ranges_;  // ascending
  std::vector<Run> runs_;
};

}  // namespace friday
