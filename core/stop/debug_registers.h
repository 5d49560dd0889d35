// The four debug registers of the processor as watches: each covers 1, 2, 4 or 8 bytes at a multiple of their number,
// for all threads of a node, and costs nothing until one of them is written, or read where that is asked for. Which
// range has which; pure data.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace friday {

struct DebugSlot {
  uint64_t address = 0;
  uint32_t size = 0;   // 0: not in use
  bool reads = false;  // of reads too; the processor has none for reads alone
};
using DebugSlots = std::array<DebugSlot, 4>;

class DebugRegisters {
 public:
  // Takes as many as [low, low + size) needs, for `owner` (not 0). False, and nothing is taken, when there are too few.
  bool take(uint32_t owner, uint64_t low, uint64_t size, bool reads = false);
  void give_back(uint32_t owner);
  const DebugSlots& slots() const { return slots_; }
  const std::array<uint32_t, 4>& owners() const { return owners_; }
  bool empty() const;

  // The pieces that a range is watched in.
  static std::vector<DebugSlot> pieces(uint64_t low, uint64_t size);

 private:
  DebugSlots slots_{};
  std::array<uint32_t, 4> owners_{};
};

}  // namespace friday
