// How the messages are told apart that stand one behind the other in what one call has sent, as those of a client do
// that does not wait for answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/pattern.h"

namespace friday {

class Framing {
 public:
  // As well-known protocols say: values of RESP (Redis), commands and answers of memcached's text protocol, requests
  // and responses of HTTP/1 whose length their headers say. Anything else is one message.
  Framing() = default;
  // What a user knows of a protocol. Either a binary length, such as "u32be", "u16le@2" (at the third byte) or
  // "u32be@1-4" (it counts itself): u8, u16, u32 or u64, little- or big-endian, so many bytes after the message's
  // first, and how many bytes more or fewer follow than it says. Or a regular expression (pattern.h) that matches a
  // message from its first byte to its last, such as "[^\n]*\n"; a group named "length" in it is a decimal number of
  // bytes that follow the match. An empty text: well-known protocols. Fails with usage.
  static Result<Framing> parse(const std::string& text);

  // As it was given to parse().
  const std::string& text() const { return text_; }

  // The lengths of the messages. The last one may end early. Where the bytes are no such messages, the rest is one.
  std::vector<size_t> messages_in(std::string_view bytes) const;

 private:
  struct Known {};
  struct BinaryLength {
    unsigned size = 0;  // bytes
    bool is_big_endian = false;
    uint64_t at = 0;
    int64_t more = 0;
  };
  struct Expression {
    Pattern pattern;
  };
  static std::optional<BinaryLength> binary_length(const std::string& text);
  // Of the first message: 0 if it ends early, none if the bytes are no such message.
  std::optional<size_t> length_of_first(std::string_view bytes) const;

  std::string text_;
  std::variant<Known, BinaryLength, Expression> how_;
};

}  // namespace friday
