// The shape of a message: its contents without what is different each time. Messages of one shape that come from one
// sender to one receiver are taken for the same message of the protocol, in all runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace friday {

// A place of a message where the contents vary, such as a number in a text, or a word of a binary message.
struct Field {
  size_t at;          // of its "#" in Shape::masked
  std::string value;  // as it is shown
  // The whole word that it stands in, such as a key, by which messages of one matter are known; empty if it is too
  // common for that.
  std::string word;
};

struct Shape {
  // The text with "#" in the place of each number; for a binary message the kind of message, such as "binary".
  std::string masked;
  std::vector<Field> fields;  // in the order of the text
  bool binary = false;
};

// Text is taken word by word: a run of digits is a field, and so is a longer word of digits and letters, as ids and
// hashes are. Of a message that is no text the length and the first aligned words of four bytes are fields.
Shape shape_of(std::string_view bytes, uint64_t length);

// The masked text in which one field has its value.
std::string with_field(const Shape& shape, size_t field);
// The message as it was, on one line.
std::string as_it_was(std::string_view bytes, uint64_t length);

}  // namespace friday
