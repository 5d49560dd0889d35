#include "core/base/pattern.h"

#include <re2/re2.h>

#include <vector>

namespace friday {

Result<Pattern> Pattern::parse(std::string_view text) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // each byte is a character
  auto compiled = std::make_shared<const re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
  if (!compiled->ok()) return fail(ErrorCode::usage, "`{}` is not a regular expression: {}", text, compiled->error());
  return Pattern(std::move(compiled));
}

bool Pattern::finds(std::string_view text) const {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled_);
}

std::optional<size_t> Pattern::begins(std::string_view text, const std::string& name, std::string_view* group) const {
  const auto& names = compiled_->NamedCapturingGroups();
  const auto found = names.find(name);
  const int number = found == names.end() ? 0 : found->second;
  std::vector<re2::StringPiece> groups(static_cast<size_t>(number) + 1);
  if (!compiled_->Match(re2::StringPiece(text.data(), text.size()), 0, text.size(), re2::RE2::ANCHOR_START,
                        groups.data(), number + 1))
    return std::nullopt;
  if (group) *group = number ? std::string_view(groups.back().data(), groups.back().size()) : std::string_view();
  return groups[0].size();
}

}  // namespace friday
