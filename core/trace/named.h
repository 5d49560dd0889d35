// Values with their names in the kernel's headers, for tables of flags and operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace friday {

struct Named {
  uint64_t value;
  std::string_view name;
};

// The constant of that name.
#define FRIDAY_NAMED(constant) \
  ::friday::Named { static_cast<uint64_t>(constant), #constant }

// Empty if the table does not have the value.
inline std::string_view name_of(std::span<const Named> table, uint64_t value) {
  const auto found = std::ranges::find(table, value, &Named::value);
  return found == table.end() ? std::string_view() : found->name;
}

}  // namespace friday
