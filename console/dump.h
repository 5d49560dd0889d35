// `friday dump`: the events of one node, a line each.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_dump_command(CLI::App& app, int* status);

}  // namespace friday
