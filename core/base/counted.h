// Numbers with their nouns, for messages to people.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace friday {

// "1 call", "2 calls", "0 calls".
inline std::string counted(uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// For example "512 bytes", "34 KiB" or "12 MiB".
inline std::string size_text(uint64_t bytes) {
  if (bytes < 10 * 1024) return fmt::format("{} bytes", bytes);
  if (bytes < 10u << 20) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} MiB", bytes >> 20);
}

}  // namespace friday
