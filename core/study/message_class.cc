#include "core/study/message_class.h"

#include <xxhash.h>

#include <fmt/format.h>

#include "core/study/naming.h"

namespace friday {

LookedAt look_at(std::string_view bytes, uint64_t length) {
  LookedAt out{shape_of(bytes, length), as_it_was(bytes, length), {}};
  for (const Field& field : out.shape.fields)
    if (!field.word.empty()) out.words.push_back(XXH3_64bits(field.word.data(), field.word.size()));
  return out;
}

std::string class_text(const Shape& shape, const KeptValues& kept) {
  const auto known = kept.find(shape.masked);
  if (known == kept.end()) return shape.masked;
  std::string text;
  size_t from = 0;
  for (size_t field = 0; field < shape.fields.size(); field++) {
    const Field& at = shape.fields[field];
    const bool keeps = field < known->second.size() && known->second[field].contains(at.value);
    text += shape.masked.substr(from, at.at - from) + (keeps ? at.value : "#");
    from = at.at + 1;
  }
  return text + shape.masked.substr(from);
}

bool is_role(const std::string& role, const std::string& named) {
  if (role == named) return true;
  return named.find('#') != std::string::npos && without_numbers(role) == named;
}

bool has_text(const LookedAt& looked, const std::string& text) {
  if (looked.shape.masked == text || looked.whole == text) return true;
  for (size_t field = 0; field < looked.shape.fields.size(); field++)
    if (with_field(looked.shape, field) == text) return true;
  return false;
}

bool is_of(const LookedAt& looked, const std::string& from, const std::string& to, const MessageClass& message) {
  const bool is_there = to.empty() || message.to.empty() || is_role(to, message.to);
  return is_there && is_role(from, message.from) && has_text(looked, message.text);
}

std::string describe(const MessageClass& message) {
  return fmt::format("`{}` from {}{}{}", message.text, message.from, message.to.empty() ? "" : " to ", message.to);
}

std::string literal_of(const MessageClass& message) {
  // A message that is no text is shown in words that do not stand in it, and a text may be shown on one line.
  std::string best, piece;
  const auto end = [&] {
    const bool stands_for_something = piece == "(nil)" || piece == "null";  // of RESP and PostgreSQL
    if (piece.size() > best.size() && !stands_for_something) best = piece;
    piece.clear();
  };
  const size_t number = message.text.find_first_not_of("#0123456789");
  if (number != std::string::npos && number > 0 && message.text.substr(number).starts_with(" bytes:")) return "";
  for (char each : message.text) {
    if (each == '#' || each == ' ' || each == ';') end();
    else piece += each;
  }
  end();
  return best;
}

}  // namespace friday
