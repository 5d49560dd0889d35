#include "core/study/framing.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "core/study/lines.h"

namespace friday {
namespace {

constexpr size_t kMostLine = 64 << 10;          // bytes of a line
constexpr uint64_t kMostLength = 512ull << 20;  // bytes of a message (Redis: proto-max-bulk-len)

// What is known of the message at the front: its length, 0 if it ends early, none if it is no message of the protocol.
using Length = std::optional<size_t>;

// Of a line and so many bytes behind it.
Length with_body(std::string_view bytes, std::string_view rest, uint64_t body) {
  if (body > kMostLength) return std::nullopt;
  if (rest.size() < body) return 0;
  return bytes.size() - rest.size() + body;
}

Length length_of_value(std::string_view bytes, int depth) {
  constexpr int kMostDepth = 4;
  constexpr std::string_view kTypes = "*$+-:";
  if (bytes.empty()) return 0;
  if (depth > kMostDepth || kTypes.find(bytes[0]) == std::string_view::npos) return std::nullopt;
  std::string_view rest = bytes;
  const auto line = take_line(rest);
  if (!line) return bytes.size() > kMostLine ? std::nullopt : Length(0);
  if (bytes[0] == '+' || bytes[0] == '-') return line->size() + kLineEnd.size();
  const auto value = number_of(line->substr(1));
  if (!value) return std::nullopt;
  if (bytes[0] == '$' && *value >= 0) {
    const auto size = static_cast<uint64_t>(*value);
    const Length length = with_body(bytes, rest, size + kLineEnd.size());
    if (length && *length > 0 && rest.substr(size, kLineEnd.size()) != kLineEnd) return std::nullopt;
    return length;
  }
  if (bytes[0] == '*') {
    for (int64_t i = 0; i < *value; i++) {
      const Length inner = length_of_value(rest, depth + 1);
      if (!inner || *inner == 0) return inner;
      rest.remove_prefix(*inner);
    }
  }
  return bytes.size() - rest.size();
}

Length length_of_resp(std::string_view bytes) { return length_of_value(bytes, 0); }

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

// memcached's text protocol (its doc/protocol.txt): a line, behind which the value stands where one is stored. The
// values that answer one command end with a line END.
Length length_of_memcached(std::string_view bytes) {
  constexpr std::array<std::string_view, 6> kStores = {"set", "add", "replace", "append", "prepend", "cas"};
  constexpr std::array<std::string_view, 24> kLines = {
      "get",   "gets",      "gat",    "gats",         "delete",       "incr",      "decr",    "touch",
      "stats", "flush_all", "STORED", "NOT_STORED",   "EXISTS",       "NOT_FOUND", "DELETED", "TOUCHED",
      "OK",    "END",       "ERROR",  "CLIENT_ERROR", "SERVER_ERROR", "STAT",      "VERSION", "version"};
  std::string_view rest = bytes;
  for (;;) {
    const auto line = take_line(rest);
    if (!line) return rest.size() < bytes.size() ? Length(0) : std::nullopt;
    const std::vector<std::string_view> words = words_of(*line);
    if (words.empty()) return std::nullopt;
    const bool is_value = words[0] == "VALUE", is_store = is_one_of(words[0], kStores);
    if (!is_value && !is_store) return is_one_of(words[0], kLines) ? Length(bytes.size() - rest.size()) : std::nullopt;
    const size_t place = is_value ? 3 : 4;  // of the length: VALUE key flags LENGTH, set key flags time LENGTH
    const auto size = words.size() > place ? number_of(words[place]) : std::nullopt;
    if (!size || *size < 0) return std::nullopt;
    const Length end = with_body(bytes, rest, static_cast<uint64_t>(*size) + kLineEnd.size());
    if (!end || *end == 0 || is_store) return end;
    rest = bytes.substr(*end);
    if (rest.empty()) return 0;
  }
}

bool is_equal(std::string_view one, std::string_view lower_case) {
  return std::ranges::equal(one, lower_case, {}, [](char c) { return static_cast<char>(tolower(c)); });
}

// HTTP/1 (RFC 9112). A response whose end is that of the connection, and a body in chunks, are not told apart from what
// follows.
Length length_of_http(std::string_view bytes) {
  constexpr std::string_view kVersion = "HTTP/1.", kNoBody[] = {"HTTP/1.1 1", "HTTP/1.1 204", "HTTP/1.1 304"};
  std::string_view rest = bytes;
  const auto line = take_line(rest);
  if (!line) return std::nullopt;
  const bool is_response = line->starts_with(kVersion);
  const size_t version = line->rfind(' ');
  if (!is_response && (version == std::string_view::npos || !line->substr(version + 1).starts_with(kVersion)))
    return std::nullopt;
  std::optional<int64_t> body;
  for (;;) {
    const auto header = take_line(rest);
    if (!header) return 0;
    if (header->empty()) break;
    const size_t colon = header->find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view name = header->substr(0, colon);
    std::string_view value = header->substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    if (is_equal(name, "transfer-encoding")) return std::nullopt;
    if (is_equal(name, "content-length")) body = number_of(value);
    if (body && *body < 0) return std::nullopt;
  }
  const bool has_none =
      !is_response || std::ranges::any_of(kNoBody, [&](auto with) { return line->starts_with(with); });
  if (!body && !has_none) return std::nullopt;
  return with_body(bytes, rest, static_cast<uint64_t>(body.value_or(0)));
}

// Takes the digits from the front behind one of `signs`; none if there are none.
std::optional<int64_t> take_number(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return std::nullopt;
  const size_t end = std::min(text.find_first_not_of("0123456789", 1), text.size());
  const auto value = number_of(text.substr(1, end - 1));
  text.remove_prefix(end);
  return value;
}

}  // namespace

std::optional<Framing::BinaryLength> Framing::binary_length(const std::string& text) {
  constexpr int64_t kMostAt = 1024, kMostMore = 1 << 20;
  std::string_view rest = text;
  BinaryLength out;
  for (const auto& [name, size, is_big] :
       {std::tuple{"u16be", 2u, true}, std::tuple{"u16le", 2u, false}, std::tuple{"u32be", 4u, true},
        std::tuple{"u32le", 4u, false}, std::tuple{"u64be", 8u, true}, std::tuple{"u64le", 8u, false},
        std::tuple{"u8", 1u, false}})
    if (rest.starts_with(name) && out.size == 0) {
      out.size = size, out.is_big_endian = is_big;
      rest.remove_prefix(std::string_view(name).size());
    }
  if (out.size == 0) return std::nullopt;
  if (const auto at = take_number(rest, '@')) {
    if (*at > kMostAt) return std::nullopt;
    out.at = static_cast<uint64_t>(*at);
  }
  if (const auto more = take_number(rest, '+')) out.more = *more;
  else if (const auto fewer = take_number(rest, '-')) out.more = -*fewer;
  if (!rest.empty() || std::abs(out.more) > kMostMore) return std::nullopt;
  return out;
}

Result<Framing> Framing::parse(const std::string& text) {
  Framing out;
  out.text_ = text;
  if (text.empty()) return out;
  if (const auto binary = binary_length(text)) {
    out.how_ = *binary;
    return out;
  }
  auto pattern = Pattern::parse(text);
  if (!pattern)
    return fail(ErrorCode::usage,
                "--frame {}: write a binary length such as u32be or u16le@2+4, or a regular expression that matches a "
                "message, such as '[^\\n]*\\n': {}",
                text, pattern.error().message);
  if (pattern->begins("") == std::optional<size_t>(0))
    return fail(ErrorCode::usage, "--frame {}: it matches no bytes at all, too, so that a message would have no end",
                text);
  out.how_ = Expression{*std::move(pattern)};
  return out;
}

std::optional<size_t> Framing::length_of_first(std::string_view bytes) const {
  if (const auto* expression = std::get_if<Expression>(&how_)) {
    std::string_view length;
    const auto end = expression->pattern.begins(bytes, "length", &length);
    if (!end) return std::nullopt;
    const auto body = length.empty() ? std::optional<int64_t>(0) : number_of(length);
    if (!body || *body < 0) return std::nullopt;
    return with_body(bytes, bytes.substr(*end), static_cast<uint64_t>(*body));
  }
  const auto& binary = std::get<BinaryLength>(how_);
  const uint64_t head = binary.at + binary.size;
  if (bytes.size() < head) return 0;
  uint64_t value = 0;
  for (unsigned i = 0; i < binary.size; i++) {
    const auto byte = static_cast<unsigned char>(bytes[binary.at + (binary.is_big_endian ? i : binary.size - 1 - i)]);
    value = value << 8 | byte;
  }
  if (value > kMostLength) return std::nullopt;
  const int64_t behind = static_cast<int64_t>(value) + binary.more;
  if (behind < 0) return std::nullopt;
  return with_body(bytes, bytes.substr(head), static_cast<uint64_t>(behind));
}

std::vector<size_t> Framing::messages_in(std::string_view bytes) const {
  std::vector<size_t> lengths;
  // False: something in them is no such message.
  const auto split = [&](const auto& length_of) {
    lengths.clear();
    for (std::string_view rest = bytes; !rest.empty(); rest.remove_prefix(lengths.back())) {
      const Length length = length_of(rest);
      lengths.push_back(length && *length > 0 ? *length : rest.size());
      if (!length) return false;
    }
    return true;
  };
  if (!std::holds_alternative<Known>(how_)) {
    (void)split([this](std::string_view rest) { return length_of_first(rest); });
    return lengths;
  }
  for (Length (*protocol)(std::string_view) : {&length_of_resp, &length_of_memcached, &length_of_http})
    if (split(protocol)) return lengths;
  return {bytes.size()};  // whatever only looks like one of them is one message
}

}  // namespace friday
