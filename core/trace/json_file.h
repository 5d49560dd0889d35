// The JSON files of a recording. They are small, and what they say is a stranger's word.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/beneath.h"

namespace friday {

// Null where the file is no JSON. Refused is what is no file, or larger than any that Friday writes; what is nested
// deeper than that is left out.
inline Result<nlohmann::json> read_json(const Beneath& file) {
  constexpr uint64_t kLargest =
      16u << 20;  // arguments are what is long in one, and the kernel gives a program at most 6 MiB of them
  constexpr int kDeepest = 32;
  FRIDAY_TRY(text, read_beneath(file, kLargest));
  auto value = nlohmann::json::parse(
      text, [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= kDeepest; }, false);
  return value.is_discarded() ? nlohmann::json() : value;
}

}  // namespace friday
