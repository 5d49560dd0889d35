#include "core/base/pattern.h"

#include <re2/re2.h>

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

}  // namespace friday
