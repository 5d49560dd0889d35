// Reads the JSON files of a recording. They are small, and their contents are untrusted input.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/beneath.h"

namespace friday {

// Returns null if the file does not contain valid JSON. Fails if it is not a regular file or is larger than any that
// Friday writes. Values nested deeper than any that Friday writes are left out.
inline Result<nlohmann::json> read_json(const Beneath& file) {
  // A program's arguments are the only long content, and the kernel allows at most 6 MiB of them (execve(2)).
  constexpr uint64_t kLargest = 16u << 20;
  constexpr int kDeepest = 32;
  FRIDAY_TRY(text, read_beneath(file, kLargest));
  auto value = nlohmann::json::parse(
      text, [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= kDeepest; }, false);
  return value.is_discarded() ? nlohmann::json() : value;
}

}  // namespace friday
