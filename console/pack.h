// `friday pack`: prepares a recording to be handed on: adds debug information, and reports what it reveals about its
// programs.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_pack_command(CLI::App& app, int* status);

}  // namespace friday
