// Inspects the text of C and C++ expressions without gdb. All functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace friday {

// Whether the character may be part of an identifier.
bool is_identifier(char c);

// The position of `name` as a whole word in `text`, at or after `from`; npos if it is absent.
size_t find_word(std::string_view text, std::string_view name, size_t from = 0);

// The bytes of a C string literal, given the text between its quotes: resolves escape sequences.
std::string unescape(std::string_view inside);

// Whether the expression contains a function call: a name followed by a parenthesis, which must not begin a declarator
// as in char(*)[8].
bool has_call(const std::string& expression);

// Whether a string literal is an argument of a function: f("x"), but neither s == "x" nor m.at("x"), whose function is
// a member.
bool passes_literal_to_function(std::string_view expression);

// gdb's command `print`: with its format ("/x", "" without one) and its expression. None for another command, and for
// one with options (-pretty).
struct PrintCommand {
  std::string format, expression;
};
std::optional<PrintCommand> parse_print_command(const std::string& command);

// Splits FUNC::LOCAL, FUNC::LOCAL->member and the like into FUNC and the rest; none if the expression has another form.
// Names of C++ contain :: too, so the caller must look up whether FUNC is a function.
std::optional<std::pair<std::string, std::string>> split_local(const std::string& expression);

}  // namespace friday
