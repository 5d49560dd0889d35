// `friday dump`: prints the events of one node, one on each line.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_dump_command(CLI::App& app, int* status);

}  // namespace friday
