// `friday merge`: joins recordings of several hosts into one.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_merge_command(CLI::App& app, int* status);

}  // namespace friday
