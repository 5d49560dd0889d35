#include "core/base/printable.h"

#include <cstdint>

#include <fmt/format.h>

namespace friday {

namespace {

struct Character {
  uint32_t code = 0;
  size_t size = 0;  // 0 if the bytes are not a valid character
};

// Decodes the character at the beginning of a non-empty text (Unicode, section 3.9, table 3-7).
Character first_of(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xc2 && lead <= 0xdf   ? 2
                      : (lead & 0xf0) == 0xe0        ? 3
                      : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                     : 0;
  if (size == 0 || text.size() < size) return {};
  uint32_t code = lead & (0x7fu >> size);
  for (size_t n = 1; n < size; ++n) {
    const auto byte = static_cast<uint8_t>(text[n]);
    if ((byte & 0xc0) != 0x80) return {};
    code = code << 6 | (byte & 0x3f);
  }
  const bool shortest = size == 2 || (size == 3 ? code >= 0x800 : code >= 0x10000);
  if (!shortest || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, size};
}

// Whether a character is a C0 or C1 control, or one of Unicode's line breaks, direction controls and invisible
// characters.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xe0000 && code <= 0xe007f);
}

std::string cleaned(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_of(text);
    const size_t size = next.size ? next.size : 1;
    const bool kept = next.size && (!is_control(next.code) || (lines && (next.code == '\n' || next.code == '\t')));
    if (kept) out += text.substr(0, size);
    else if (next.code == '\n' && next.size) out += "\\n";
    else if (next.size > 1 && next.code > 0xffff) out += fmt::format("\\U{:08x}", next.code);
    else if (next.size > 1) out += fmt::format("\\u{:04x}", next.code);
    else out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, false); }
std::string printable_lines(std::string_view text) { return cleaned(text, true); }

std::string printable_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Character next = first_of(json);
    const size_t size = next.size ? next.size : 1;
    if (!next.size) out += "\\ufffd";
    else if (!is_control(next.code) || next.code == '\n') out += json.substr(0, size);
    else if (next.code > 0xffff)
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (next.code >> 10), 0xdc00 + (next.code & 0x3ff));
    else out += fmt::format("\\u{:04x}", next.code);
    json.remove_prefix(size);
  }
  return out;
}

}  // namespace friday
