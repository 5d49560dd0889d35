#include "core/replay/thread_areas.h"

#include <cstddef>

namespace friday {

using shim::ThreadArea;

std::optional<uint64_t> thread_area(const TracedProcess& process, const shim::Control& control, uint32_t number) {
  uint16_t slot = 0;
  if (!process.read(control.slots + number % shim::kNumberedSlots * sizeof slot, &slot, sizeof slot))
    return std::nullopt;
  const uint64_t area = shim::area_address(slot);
  uint32_t its_thread = 0;
  if (!process.read(area + offsetof(ThreadArea, number), &its_thread, sizeof its_thread) || its_thread != number)
    return std::nullopt;
  return area;
}

}  // namespace friday
