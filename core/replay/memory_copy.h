// A copy of all writable memory of a node's process, taken before the debugger calls a function of the program. If the
// call fails, restore() undoes it: pages that changed, and mappings that were added or removed. If the call returns,
// unchanged() tells whether it changed anything. Friday's own areas in the process are included, since the call uses
// them, except the trace, the schedule and friday-stub.
//
// Between take() and restore(), no thread of the node may run but the one that executes the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/replay/node.h"

namespace friday {

inline constexpr uint64_t kRedZone = 128;         // bytes below the stack pointer that the program may still use
inline constexpr uint64_t kDeadStack = 64 << 10;  // bytes below these in which a called function has its frames

// What lies on a stack below the red zone. The program does not read it, but a replay that goes on has it.
struct DeadStack {
  Addr low;
  std::vector<std::byte> bytes;

  uint64_t end() const { return low.value + bytes.size(); }
  // Of a stack whose red zone begins at `live`. None if too little of the stack is there.
  static std::optional<DeadStack> below(uint64_t live, ReplayNode& node);
};

class MemoryCopy {
 public:
  // Fails with unsupported if the process has more memory than can be copied for a call.
  static Result<MemoryCopy> take(ReplayNode& node);
  // Returns how many pages were restored.
  Result<size_t> restore(ReplayNode& node) const;
  // Whether the program would find its mappings and memory as they were, and the shim what it keeps of the program. The
  // stack below `stack_pointer` and the rest of Friday's own memory do not count.
  Result<bool> unchanged(ReplayNode& node, uint64_t stack_pointer) const;

 private:
  struct Range {
    uint64_t low, high;
    uint32_t protection;
    bool writable;  // the range was copied; of other ranges only the mapping is known
    bool sparse;    // pages of the range that are in no run were zero
    bool operator==(const Range&) const = default;
  };
  struct Run {
    uint64_t low;
    std::vector<std::byte> bytes;
  };
  static Result<std::vector<Range>> ranges_of(ReplayNode& node);
  Result<void> restore_mappings(ReplayNode& node) const;
  // Calls `use(address, now, then)` for each page that differs, until `use` (which returns Result<bool>) returns false.
  template <typename Use>
  Result<void> each_changed(ReplayNode& node, Use use) const;

  std::vector<Range> ranges_;  // ascending
  std::vector<Run> runs_;
};

}  // namespace friday
