#include "core/trace/mark.h"

#include <charconv>

namespace friday {
namespace {

constexpr std::string_view kStart = "start";

// Takes a number from the front of `text`, which must follow `before`.
template <typename Number>
bool take(std::string_view& text, std::string_view before, int base, Number& number) {
  if (!text.starts_with(before)) return false;
  text.remove_prefix(before.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string text_of(const Position& position) {
  if (!position) return std::string(kStart);
  const auto& [node, event, passage] = *position;
  if (!passage) return fmt::format("{}#{}", node, event.value);
  const std::string size = passage->size ? fmt::format("+{}", passage->size) : "";
  return fmt::format("{}#{}:{:#x}{}*{}", node, event.value, passage->at.value, size, passage->nth);
}

Result<Position> parse_position(std::string_view text) {
  if (text == kStart) return Position{};
  std::string_view left = text;
  Mark mark;
  bool whole = take(left, "", 10, mark.node.value) && take(left, "#", 10, mark.event.value);
  if (whole && !left.empty()) {
    Passage& passage = mark.passage.emplace();
    whole = take(left, ":0x", 16, passage.at.value);
    if (left.starts_with('+'))
      whole = whole && take(left, "+", 10, passage.size) && passage.size > 0 && passage.size <= kMostMarkBytes;
    whole = whole && take(left, "*", 10, passage.nth) && passage.nth > 0;
  }
  if (!whole || !left.empty())
    return fail(
        ErrorCode::usage,
        "\"{}\" is no mark: NODE#EVENT, NODE#EVENT:0xADDRESS*TIMES, NODE#EVENT:0xADDRESS+BYTES*TIMES or start, for "
        "example 3#1234 or 3#1234:0x401136*5",
        text);
  return mark;
}

}  // namespace friday
