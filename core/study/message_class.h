// A message as a comparison names it, without a run: who sends it to whom, and a class of its contents. So messages of
// other runs, also of one that is under way, can be found by it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/study/shape.h"

namespace friday {

struct MessageClass {
  std::string from, to;  // roles, or what is said for several alike ("client-#"); an empty `to`: whoever it is
  std::string text;      // as they are shown (Identity::text), with "#" for every number, for all but one, or for none
};
// For example "`SET price:f1 #` from crawler to redis".
std::string describe(const MessageClass& message);

// Pieces of text of which each message of the class has one, as it was sent, so that most others can be let through
// without a look at them. Empty: any message may be of the class.
std::string literal_of(const MessageClass& message);

// What of a message classes can be compared with.
struct LookedAt {
  Shape shape;
  std::string whole;
  std::vector<uint64_t> words;  // hashes of Field::word
};
LookedAt look_at(std::string_view bytes, uint64_t length);

// By the masked text of a shape and field: values that tell messages of the shape apart, as a key does, and are left in
// their class's text.
using KeptValues = std::map<std::string, std::vector<std::set<std::string>>>;
// The masked text with the values that are kept.
std::string class_text(const Shape& shape, const KeptValues& kept);

// Whether a role is the one that a class names, or one of several alike.
bool is_role(const std::string& role, const std::string& named);
// Whether a message has the text of a class, with "#" for every number, for all but one, or for none.
bool has_text(const LookedAt& looked, const std::string& text);
// `to` may be empty, if nobody knows who will receive it.
bool is_of(const LookedAt& looked, const std::string& from, const std::string& to, const MessageClass& message);

}  // namespace friday
