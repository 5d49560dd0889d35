#include "core/stop/debug_registers.h"

#include <algorithm>

namespace friday {

std::vector<DebugSlot> DebugRegisters::pieces(uint64_t low, uint64_t size) {
  std::vector<DebugSlot> all;
  for (const uint64_t high = low + size; low < high && all.size() <= 4;) {
    uint32_t piece = 8;
    while (low % piece != 0 || low + piece > high) piece /= 2;
    all.push_back({low, piece, false});
    low += piece;
  }
  return all;
}

bool DebugRegisters::take(uint32_t owner, uint64_t low, uint64_t size, bool reads) {
  const std::vector<DebugSlot> wanted = pieces(low, size);
  if (static_cast<size_t>(std::ranges::count(owners_, 0u)) < wanted.size()) return false;
  size_t next = 0;
  for (size_t i = 0; i < slots_.size() && next < wanted.size(); ++i)
    if (owners_[i] == 0) {
      slots_[i] = wanted[next++];
      slots_[i].reads = reads;
      owners_[i] = owner;
    }
  return true;
}

void DebugRegisters::give_back(uint32_t owner) {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (owners_[i] == owner) {
      owners_[i] = 0;
      slots_[i] = {};
    }
}

bool DebugRegisters::empty() const {
  return std::ranges::all_of(owners_, [](uint32_t owner) { return owner == 0; });
}

}  // namespace friday
