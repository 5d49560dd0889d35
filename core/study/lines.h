// Of text protocols: lines that end with CR LF, and the numbers in them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace friday {

inline constexpr std::string_view kLineEnd = "\r\n";

// Takes a line from the front; none if it is not complete.
inline std::optional<std::string_view> take_line(std::string_view& bytes) {
  const size_t end = bytes.find(kLineEnd);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + kLineEnd.size());
  return line;
}

// None if it is anything else than a decimal number of 64 bits.
inline std::optional<int64_t> number_of(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace friday
