#include "core/study/classes.h"

#include <algorithm>
#include <map>

#include "core/study/shape.h"

namespace friday {

Result<UserClasses> UserClasses::parse(const std::vector<std::string>& ignored,
                                       const std::vector<std::string>& classes) {
  UserClasses out;
  for (const std::string& each : ignored) {
    FRIDAY_TRY(pattern, Pattern::parse(each));
    out.ignored_.push_back(std::move(pattern));
  }
  for (const std::string& each : classes) {
    const size_t equals = each.find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(ErrorCode::usage, "--class {}: write NAME=REGEX, such as 'price=^(GET|SET) price:'", each);
    FRIDAY_TRY(pattern, Pattern::parse(std::string_view(each).substr(equals + 1)));
    out.classes_.emplace_back(each.substr(0, equals), std::move(pattern));
  }
  return out;
}

std::optional<std::string> UserClasses::read(std::string_view bytes, uint64_t length) const {
  const std::string shown = as_it_was(bytes, length);
  for (const Pattern& pattern : ignored_)
    if (pattern.finds(shown)) return std::nullopt;
  for (const auto& [name, pattern] : classes_)
    if (pattern.finds(shown)) return name;
  return std::string(bytes);
}

void UserClasses::apply(Talk& talk) const {
  if (empty()) return;
  // The length is a part of a message that is no text, so a text may be shown in several ways.
  std::map<std::pair<uint32_t, uint64_t>, std::optional<uint32_t>> known;
  std::map<std::string, uint32_t> numbers;
  for (uint32_t i = 0; i < talk.texts.size(); i++) numbers[talk.texts[i]] = i;
  std::erase_if(talk.events, [&](TalkEvent& event) {
    if (event.text == TalkEvent::kUnknown) return false;
    const auto [place, is_new] = known.try_emplace({event.text, event.length}, event.text);
    if (is_new) {
      const auto text = read(talk.texts[event.text], event.length);
      place->second.reset();
      if (text) {
        const auto [number, is_first] = numbers.try_emplace(*text, static_cast<uint32_t>(talk.texts.size()));
        if (is_first) talk.texts.push_back(*text);
        place->second = number->second;
      }
    }
    if (place->second) event.text = *place->second;
    return !place->second;
  });
}

bool UserClasses::is_class(const std::string& text) const {
  return std::ranges::any_of(classes_, [&](const auto& each) {
    return shape_of(each.first, each.first.size()).masked == text || each.first == text;
  });
}

}  // namespace friday
