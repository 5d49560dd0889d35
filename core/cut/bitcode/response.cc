#include "core/cut/bitcode/response.h"

#include <cctype>
#include <fstream>
#include <iterator>
#include <optional>

namespace friday::cut {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char each = text[at];
    if (!quote && isspace(static_cast<unsigned char>(each))) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (each == '\\' && at + 1 < text.size()) words.back() += text[++at];
    else if (quote ? each == quote : each == '"' || each == '\'') quote = quote ? 0 : each;
    else words.back() += each;
  }
  return words;
}

std::optional<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return file.bad() ? std::nullopt : std::optional(std::move(text));
}

}  // namespace

std::vector<std::string> expand_responses(std::vector<std::string> arguments) {
  constexpr unsigned kMost = 1000;  // one that names itself ends here
  unsigned expanded = 0;
  for (size_t at = 0; at < arguments.size();) {
    const std::string& each = arguments[at];
    const auto text = each.starts_with('@') && ++expanded < kMost ? contents(each.substr(1)) : std::nullopt;
    if (!text) {
      ++at;
      continue;
    }
    const std::vector<std::string> words = words_of(*text);
    const auto place = arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(at));
    arguments.insert(place, words.begin(), words.end());
  }
  return arguments;
}

}  // namespace friday::cut
