// `friday cut profile -o COUNTS -- COMMAND`: builds the program of the command again so that it counts
// (core/cut/bitcode/counting.h), and becomes it. Its counts come into the directory COUNTS, where those of several runs
// add up.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

// `cut`: the command friday cut.
void add_profile_command(CLI::App& cut, int* status);

}  // namespace friday
