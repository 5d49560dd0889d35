// The arguments of a compiler or linker, with response files (@FILE) replaced by what they hold.
#pragma once

#include <string>
#include <vector>

namespace friday::cut {

// Words of a response file are separated by blanks; quotes and backslashes hold a word together, as gcc, clang and ld
// read them. A response file may name others. One that cannot be read stays as it is, as an ordinary word.
std::vector<std::string> expand_responses(std::vector<std::string> arguments);

}  // namespace friday::cut
