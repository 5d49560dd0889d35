#include "core/rsp/text.h"

namespace friday {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_hex(std::string& out, std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  size_t at = out.size();
  out.resize(at + 2 * bytes.size());
  for (std::byte byte : bytes) {
    out[at++] = kDigits[static_cast<unsigned>(byte) >> 4];
    out[at++] = kDigits[static_cast<unsigned>(byte) & 15];
  }
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  append_hex(out, bytes);
  return out;
}

std::string to_hex(std::string_view text) { return to_hex(std::as_bytes(std::span(text))); }

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
  if (text.size() % 2) return {};
  std::vector<std::byte> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return {};
    bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return bytes;
}

std::string escape_xml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c >= 0 && c < ' ' ? '?' : c;
    }
  }
  return out;
}

bool TextCursor::take(std::string_view prefix) {
  if (!rest_.starts_with(prefix)) return false;
  rest_.remove_prefix(prefix.size());
  return true;
}

std::optional<uint64_t> TextCursor::hex() {
  uint64_t value = 0;
  size_t digits = 0;
  while (digits < rest_.size() && hex_digit(rest_[digits]) >= 0) {
    if (digits == 16) return {};
    value = value << 4 | static_cast<uint64_t>(hex_digit(rest_[digits++]));
  }
  if (!digits) return {};
  rest_.remove_prefix(digits);
  return value;
}

std::string_view TextCursor::until(char separator) {
  size_t end = rest_.find(separator);
  std::string_view part = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  return part;
}

std::optional<std::string_view> TextCursor::chars(size_t count) {
  if (count > rest_.size()) return {};
  std::string_view part = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return part;
}

}  // namespace friday
