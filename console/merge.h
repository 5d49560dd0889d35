// `friday merge`: one recording of those that several hosts made.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_merge_command(CLI::App& app, int* status);

}  // namespace friday
