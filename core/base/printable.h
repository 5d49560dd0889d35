// Text that a stranger may have chosen, such as names and paths in a recording, on its way to a terminal. A terminal
// obeys what it is shown: escape sequences move its cursor, rename its window, write its clipboard; controls of the
// direction of writing show a name as another one. So what is no printable character becomes an escape (\x1b, \u202e),
// and so does what is no valid UTF-8. All else stays as it is, a backslash too.
#pragma once

#include <string>
#include <string_view>

namespace friday {

// A name: one line, without controls of any kind.
std::string printable(std::string_view text);
// Whole messages: lines and tabs stay.
std::string printable_lines(std::string_view text);
// JSON that is ready: nothing but escapes that JSON has, so that who parses it gets what was there.
std::string printable_json(std::string_view json);

}  // namespace friday
