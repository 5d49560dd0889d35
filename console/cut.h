// The command `friday cut`: which part of a program to replay by itself, and what to log for it.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_cut_command(CLI::App& app, int* status);

}  // namespace friday
