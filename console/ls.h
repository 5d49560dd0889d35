// `friday ls`: which recordings there are, or which nodes one has, how long they ran and how they ended.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_ls_command(CLI::App& app, int* status);

}  // namespace friday
