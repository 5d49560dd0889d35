// Hexadecimal text, and a cursor over the arguments of a packet. The cursor never reads past its end and reports every
// malformed field, so packet handlers need no index arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace friday {

// The value of a hexadecimal digit, or -1 for any other character.
int hex_digit(char c);

void append_hex(std::string& out, std::span<const std::byte> bytes);
std::string to_hex(std::span<const std::byte> bytes);
std::string to_hex(std::string_view text);

// Empty if `text` is not an even number of hexadecimal digits.
std::optional<std::vector<std::byte>> from_hex(std::string_view text);

std::string escape_xml(std::string_view text);

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }

  // Removes `prefix` if the rest starts with it; returns whether it did.
  bool take(std::string_view prefix);
  // Reads one to sixteen hexadecimal digits.
  std::optional<uint64_t> hex();
  // Returns everything up to `separator` and removes it together with the separator; if there is none, returns the
  // rest.
  std::string_view until(char separator);
  // Reads exactly `count` characters.
  std::optional<std::string_view> chars(size_t count);

 private:
  std::string_view rest_;
};

}  // namespace friday
