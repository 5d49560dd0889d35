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

}  // namespace friday
