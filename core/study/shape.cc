#include "core/study/shape.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "core/study/reading.h"

namespace friday {
namespace {

constexpr size_t kLongWord = 12;   // a word of digits and letters that is as long as this is an id
constexpr size_t kMostWords = 16;  // of a binary message
constexpr uint32_t kSmall = 1000;  // a smaller word of a binary message is no key

bool is_word(char byte) { return std::isalnum(static_cast<unsigned char>(byte)) != 0; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Nearly all of a text can be printed; a single byte of a length or a terminator may stand in it.
bool is_text(std::string_view bytes) {
  const auto printed = std::ranges::count_if(bytes, [](char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code >= 0x80 || std::isprint(code) || std::isspace(code);
  });
  return !bytes.empty() && static_cast<size_t>(printed) * 10 >= bytes.size() * 9;
}

void add_field(Shape& shape, std::string value, std::string word) {
  shape.fields.push_back({shape.masked.size(), std::move(value), std::move(word)});
  shape.masked += '#';
}

// A line of the terminal: white space and what cannot be printed become a space.
void add_plain(Shape& shape, std::string_view bytes) {
  for (char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    const char shown = code < 0x20 || code == 0x7f ? ' ' : byte;
    if (shown != ' ' || (!shape.masked.empty() && shape.masked.back() != ' ')) shape.masked += shown;
  }
}

Shape shape_of_text(std::string_view bytes) {
  Shape shape;
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    while (end < bytes.size() && is_word(bytes[end])) end++;
    if (end == at) {
      if (bytes[at] == '#') add_field(shape, "#", "");  // so that a mask has as many fields as it has "#"
      else add_plain(shape, bytes.substr(at, 1));
      at++;
      continue;
    }
    const std::string_view word = bytes.substr(at, end - at);
    if (word.size() >= kLongWord && std::ranges::any_of(word, is_digit)) {
      add_field(shape, std::string(word), std::string(word));
    } else {
      for (size_t from = 0; from < word.size();) {
        size_t to = from;
        while (to < word.size() && is_digit(word[to]) == is_digit(word[from])) to++;
        if (is_digit(word[from])) add_field(shape, std::string(word.substr(from, to - from)), std::string(word));
        else add_plain(shape, word.substr(from, to - from));
        from = to;
      }
    }
    at = end;
  }
  while (shape.masked.ends_with(' ')) shape.masked.pop_back();
  return shape;
}

Shape shape_of_binary(std::string_view bytes, uint64_t length) {
  Shape shape;
  shape.binary = true;
  add_field(shape, fmt::format("{}", length), "");
  shape.masked += " bytes:";
  for (size_t word = 0; word < kMostWords && (word + 1) * 4 <= bytes.size(); word++) {
    uint32_t value = 0;
    std::memcpy(&value, &bytes[word * 4], sizeof value);
    shape.masked += ' ';
    const std::string shown = value < 0x10000 ? fmt::format("{}", value) : fmt::format("{:#x}", value);
    add_field(shape, shown, value < kSmall ? "" : shown);
  }
  return shape;
}

}  // namespace

Shape shape_of(std::string_view bytes, uint64_t length) {
  const std::string text = readable(bytes, length);
  return is_text(text) ? shape_of_text(text) : shape_of_binary(bytes, length);
}

std::string with_field(const Shape& shape, size_t field) {
  const Field& kept = shape.fields[field];
  return shape.masked.substr(0, kept.at) + kept.value + shape.masked.substr(kept.at + 1);
}

std::string as_it_was(std::string_view bytes, uint64_t length) {
  const Shape shape = shape_of(bytes, length);
  std::string text;
  size_t from = 0;
  for (const Field& field : shape.fields) {
    text += shape.masked.substr(from, field.at - from) + field.value;
    from = field.at + 1;
  }
  return text + shape.masked.substr(from);
}

}  // namespace friday
