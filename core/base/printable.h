// Makes text safe to print on a terminal if a stranger may have chosen it, such as names and paths in a recording. A
// terminal obeys escape sequences, which can move its cursor, rename its window or write its clipboard; Unicode
// controls of writing direction can disguise a name. Therefore unprintable characters become escapes (\x1b, \u202e),
// and so do bytes that are not valid UTF-8. Everything else stays unchanged, including backslashes.
#pragma once

#include <string>
#include <string_view>

namespace friday {

// For a name: one line, without any control characters.
std::string printable(std::string_view text);
// For whole messages: keeps newlines and tabs.
std::string printable_lines(std::string_view text);
// For finished JSON: uses only escapes that JSON defines, so that a parser gets the original text.
std::string printable_json(std::string_view json);

}  // namespace friday
