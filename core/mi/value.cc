#include "core/mi/value.h"

#include <charconv>

#include <fmt/format.h>

namespace friday {

const MiValue* MiValue::find(std::string_view name) const {
  for (const MiField& field : fields)
    if (field.name == name) return &field.value;
  return nullptr;
}

std::string_view MiValue::text_of(std::string_view name) const {
  const MiValue* value = find(name);
  return value && value->kind == Kind::text ? std::string_view(value->text) : std::string_view();
}

std::optional<uint64_t> MiValue::number_of(std::string_view name) const { return parse_mi_number(text_of(name)); }

bool MiValue::operator==(const MiValue& other) const {
  return kind == other.kind && text == other.text && fields == other.fields;
}

std::optional<uint64_t> parse_mi_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string mi_quote(std::string_view text) {
  std::string quoted = "\"";
  for (unsigned char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      default:
        if (c < 0x20 || c == 0x7f) quoted += fmt::format("\\{:03o}", c);
        else quoted += static_cast<char>(c);
    }
  }
  return quoted + '"';
}

std::string to_string(const MiValue& value) {
  if (value.kind == MiValue::Kind::text) return mi_quote(value.text);
  std::string text(1, value.kind == MiValue::Kind::tuple ? '{' : '[');
  for (const MiField& field : value.fields) {
    if (text.size() > 1) text += ',';
    if (!field.name.empty()) text += field.name + '=';
    text += to_string(field.value);
  }
  return text + (value.kind == MiValue::Kind::tuple ? '}' : ']');
}

}  // namespace friday
