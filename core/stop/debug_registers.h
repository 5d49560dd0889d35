// Allocates the four debug registers of the processor to watched ranges; pure data. A register watches 1, 2, 4 or 8
// naturally aligned bytes in all threads of a node. It costs nothing until the bytes are written (or read, if
// requested).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace friday {

struct DebugSlot {
  uint64_t address = 0;
  uint32_t size = 0;   // bytes; 0 if the slot is free
  bool reads = false;  // watch reads too; the processor cannot watch reads alone
  bool operator==(const DebugSlot&) const = default;
};
using DebugSlots = std::array<DebugSlot, 4>;

class DebugRegisters {
 public:
  // Allocates as many slots as [low, low + size) needs, for `owner` (not 0). Returns false and allocates nothing if too
  // few are free.
  bool take(uint32_t owner, uint64_t low, uint64_t size, bool reads = false);
  void give_back(uint32_t owner);
  const DebugSlots& slots() const { return slots_; }
  const std::array<uint32_t, 4>& owners() const { return owners_; }
  bool empty() const;

  // The aligned pieces into which a range is divided.
  static std::vector<DebugSlot> pieces(uint64_t low, uint64_t size);

 private:
  DebugSlots slots_{};
  std::array<uint32_t, 4> owners_{};
};

}  // namespace friday
