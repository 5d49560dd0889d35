// Numbers in as many bytes as they need: seven bits a byte, the lowest first, with the highest bit set in all but the
// last (LEB128, as in DWARF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace friday {

inline void put_leb128(std::vector<std::byte>& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<std::byte>(value | 0x80));
  to.push_back(static_cast<std::byte>(value));
}

// Takes a number from the front of the bytes. None if they end too soon, or the number has more than 64 bits.
inline std::optional<uint64_t> take_leb128(std::span<const std::byte>& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = std::to_integer<uint64_t>(bytes[0]);
    bytes = bytes.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Signed differences as numbers that are small if the difference is, whatever its sign: 0, -1, 1, -2, 2, ...
inline uint64_t zigzag(uint64_t difference) {
  const auto value = static_cast<int64_t>(difference);
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline uint64_t unzigzag(uint64_t code) { return (code >> 1) ^ (0 - (code & 1)); }

}  // namespace friday
