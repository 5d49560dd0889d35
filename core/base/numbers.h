// Numbers in text.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace friday {

// The number that the whole text is, if it is written as Friday writes numbers in names of files: decimal, without
// leading zeros, so that each number has one name.
inline std::optional<uint64_t> canonical_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && (text.size() == 1 || text[0] != '0') ? std::optional(number) : std::nullopt;
}

}  // namespace friday
