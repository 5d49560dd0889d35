// What a user knows of a group's messages and a comparison cannot: which do not matter, and which are of one class
// though their texts differ.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/pattern.h"
#include "core/study/talk.h"

namespace friday {

class UserClasses {
 public:
  // `ignored`: regular expressions (pattern.h) for messages as they are shown, on one line; `classes`: NAME=REGEX, of
  // which the first that matches counts. Fails with usage.
  static Result<UserClasses> parse(const std::vector<std::string>& ignored, const std::vector<std::string>& classes);

  bool empty() const { return ignored_.empty() && classes_.empty(); }
  // Leaves out of the run what is ignored, and gives what is of a class the class's name as its text.
  void apply(Talk& talk) const;
  // The same for one message: its text, or none if it is ignored.
  std::optional<std::string> read(std::string_view bytes, uint64_t length) const;
  // Whether it is the name of a class: such a text stands in no message.
  bool is_class(const std::string& text) const;

 private:
  std::vector<Pattern> ignored_;
  std::vector<std::pair<std::string, Pattern>> classes_;
};

}  // namespace friday
