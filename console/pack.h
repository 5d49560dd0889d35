// `friday pack`: makes a recording ready to be handed on: its debug information, and what it tells about its programs.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_pack_command(CLI::App& app, int* status);

}  // namespace friday
