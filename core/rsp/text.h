// Hexadecimal text and a cursor over packet arguments. The cursor never reads past its end and has a failure for every
// malformed field, so that a packet handler can be written without index arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace friday {

// Value of a hexadecimal digit, or -1.
int hex_digit(char c);

void append_hex(std::string& out, std::span<const std::byte> bytes);
std::string to_hex(std::span<const std::byte> bytes);
std::string to_hex(std::string_view text);

// Empty when `text` is not an even number of hexadecimal digits.
std::optional<std::vector<std::byte>> from_hex(std::string_view text);

std::string escape_xml(std::string_view text);

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }

  // Removes `prefix` from the front if it stands there.
  bool take(std::string_view prefix);
  // One to sixteen hexadecimal digits.
  std::optional<uint64_t> hex();
  // Everything up to `separator`, which is removed too; up to the end if there is none.
  std::string_view until(char separator);
  // Exactly `count` characters.
  std::optional<std::string_view> chars(size_t count);

 private:
  std::string_view rest_;
};

}  // namespace friday
