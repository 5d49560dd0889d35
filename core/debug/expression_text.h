// What the text of a C or C++ expression shows by itself, before gdb is asked what it means. Plain functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace friday {

// Whether the character may stand in a name.
bool is_identifier(char c);

// Position of `name` as a whole word in `text`, from `from` on; npos if it is absent.
size_t find_word(std::string_view text, std::string_view name, size_t from = 0);

// The bytes that the inside of a C string literal stands for: its escapes are resolved.
std::string unescape(std::string_view inside);

// Whether the expression calls something: a name stands before a parenthesis that does not begin a declarator, as in
// char(*)[8].
bool has_call(const std::string& expression);

// FUNC and the rest of FUNC::LOCAL, FUNC::LOCAL->member and so on; none when the expression does not look like that.
// C++ names have :: too: whether FUNC is a function must be looked up.
std::optional<std::pair<std::string, std::string>> split_local(const std::string& expression);

}  // namespace friday
