// A regular expression that a user has given, searched in text that may come from a stranger. The syntax is that of
// RE2, which is Python's without look-around and back references. Text and pattern are bytes: what is not valid UTF-8
// is searched like anything else. The time of a search grows with the length of the text only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace re2 {
class RE2;
}

namespace friday {

class Pattern {
 public:
  // Fails with usage, and says what is wrong with the expression.
  static Result<Pattern> parse(std::string_view text);

  // Whether the expression matches somewhere in `text`. May be called from any thread.
  bool finds(std::string_view text) const;
  // The length of what it matches at the beginning of `text`. `group`: what the group of this name has matched, if
  // there is one; else it becomes empty.
  std::optional<size_t> begins(std::string_view text, const std::string& name = {},
                               std::string_view* group = nullptr) const;

 private:
  explicit Pattern(std::shared_ptr<const re2::RE2> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace friday
