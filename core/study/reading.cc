#include "core/study/reading.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/study/lines.h"

namespace friday {
namespace {

// Takes a value of RESP from the front and adds its words to `text` (Redis serialization protocol, RESP2). False if
// this is no such value; if it ends early, what there is of it is taken.
bool take_resp(std::string_view& bytes, std::string& text, int depth) {
  constexpr int kMostDepth = 4;
  if (bytes.empty() || depth > kMostDepth) return false;
  const char type = bytes[0];
  const auto line = take_line(bytes);
  if (!line || line->empty()) return false;
  const auto add = [&](std::string_view word) { (text += text.empty() ? "" : " ") += word; };
  if (type == '+' || type == '-') {
    add(line->substr(1));
    return true;
  }
  const auto value = number_of(line->substr(1));
  if (!value) return false;
  if (type == ':') {
    add(line->substr(1));
  } else if (type == '$') {
    if (*value < 0) {
      add("(nil)");
      return true;
    }
    add(bytes.substr(0, static_cast<size_t>(*value)));
    bytes.remove_prefix(std::min(bytes.size(), static_cast<size_t>(*value)));
    if (bytes.starts_with(kLineEnd)) bytes.remove_prefix(kLineEnd.size());
  } else if (type == '*') {
    for (int64_t i = 0; i < *value && !bytes.empty(); i++)
      if (!take_resp(bytes, text, depth + 1)) return false;
  } else {
    return false;
  }
  return true;
}

std::optional<std::string> resp(std::string_view bytes) {
  constexpr std::string_view kTypes = "*$+-:";
  if (bytes.size() < 3 || kTypes.find(bytes[0]) == std::string_view::npos) return std::nullopt;
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    std::string one;
    if (!take_resp(rest, one, 0)) return text.empty() ? std::nullopt : std::optional(text);
    text += (text.empty() ? "" : "; ") + one;
  }
  return text;
}

std::optional<std::string> http(std::string_view bytes) {
  constexpr std::array<std::string_view, 7> kMethods = {"GET ",    "POST ",  "PUT ",    "HEAD ",
                                                        "DELETE ", "PATCH ", "OPTIONS "};
  constexpr std::string_view kVersion = " HTTP/1.";
  std::string_view rest = bytes;
  const auto line = take_line(rest);
  if (!line) return std::nullopt;
  std::string text;
  if (line->starts_with(kVersion.substr(1))) {
    text = line->substr(kVersion.size() + 1);  // "200 OK"
  } else {
    const size_t version = line->rfind(kVersion);
    const bool is_request = version != std::string_view::npos;
    bool known = false;
    for (std::string_view method : kMethods) known |= line->starts_with(method);
    if (!is_request || !known) return std::nullopt;
    text = line->substr(0, version);
  }
  constexpr std::string_view kEmptyLine = "\r\n\r\n";
  const size_t body = bytes.find(kEmptyLine);
  if (body != std::string_view::npos && body + kEmptyLine.size() < bytes.size())
    (text += ' ') += bytes.substr(body + kEmptyLine.size());
  return text;
}

// Takes a big-endian integer of N bytes from the front; none if there are fewer.
template <size_t N>
std::optional<uint32_t> take_integer(std::string_view& bytes) {
  if (bytes.size() < N) return std::nullopt;
  uint32_t value = 0;
  for (char byte : bytes.substr(0, N)) value = value << 8 | static_cast<unsigned char>(byte);
  bytes.remove_prefix(N);
  return value;
}

// The values of a row, and "null" for one that has none (PostgreSQL: DataRow; Bind has its values in the same form).
std::string values_of_row(std::string_view body) {
  std::string text;
  const auto count = take_integer<2>(body);
  for (uint32_t i = 0; count && i < *count && !body.empty(); i++) {
    const auto size = take_integer<4>(body);
    if (!size) break;
    const bool is_null = *size == ~uint32_t{0};
    const std::string_view value = is_null ? "null" : body.substr(0, *size);
    (text += text.empty() ? "" : " ") += value;
    if (!is_null) body.remove_prefix(value.size());
  }
  return text;
}

// A message of PostgreSQL's protocol, version 3: a type, the length of what follows with itself, and that. Only such as
// people read have texts.
std::string text_of_message(char type, std::string_view body) {
  constexpr std::string_view kTexts = "QCEN";  // query, command complete, error or execute, notice
  if (type == 'D') return values_of_row(body);
  if (type == 'B') {  // names of the portal and the statement, formats, then the values
    for (int name = 0; name < 2; name++) body.remove_prefix(std::min(body.size(), body.find('\0') + 1));
    const auto formats = take_integer<2>(body);
    body.remove_prefix(std::min<size_t>(body.size(), formats ? *formats * 2u : 0));
    return values_of_row(body);
  }
  if (type == 'P') {  // name of the statement, query, types of parameters
    body.remove_prefix(std::min(body.size(), body.find('\0') + 1));
    return std::string(body.substr(0, body.find('\0')));
  }
  if (kTexts.find(type) == std::string_view::npos) return "";
  std::string text(body);
  std::ranges::replace(text, '\0', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// Of the last message more may follow than the bytes that are known, but not more than there are.
std::optional<std::string> postgres(std::string_view bytes, uint64_t whole) {
  constexpr std::string_view kTypes = "QPBDESCXHZTN123Intsc";  // those of queries and their answers
  constexpr size_t kHead = 5;
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const uint64_t left = whole - (bytes.size() - rest.size());
    const char type = rest[0];
    rest.remove_prefix(1);
    const auto length = take_integer<4>(rest);
    const bool is_known = kTypes.find(type) != std::string_view::npos;
    if (!length) return is_known && !text.empty() && left >= kHead ? std::optional(text) : std::nullopt;
    if (!is_known || *length < 4 || *length + 1 > left) return std::nullopt;
    const std::string_view body = rest.substr(0, *length - 4);
    const std::string shown = text_of_message(type, body);
    ((text += text.empty() ? "" : "; ") += type) += (shown.empty() ? "" : " ") + shown;
    rest.remove_prefix(body.size());
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

std::string readable(std::string_view bytes, uint64_t length) {
  if (auto text = resp(bytes)) return *text;
  if (auto text = http(bytes)) return *text;
  if (auto text = postgres(bytes, std::max<uint64_t>(length, bytes.size()))) return *text;
  return std::string(bytes);
}

}  // namespace friday
