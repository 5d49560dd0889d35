// Page arithmetic of core/stop/watch*.cc.
#pragma once

#include <cstdint>

namespace friday {

constexpr uint64_t page_size = 4096;
constexpr uint64_t page_of(uint64_t address) { return address & ~(page_size - 1); }

}  // namespace friday
