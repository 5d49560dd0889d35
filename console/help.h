// `friday help`: shows the pages of the documentation (pyext/friday/pages.py), which are installed with Friday.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_help_command(CLI::App& app, int* status);

}  // namespace friday
