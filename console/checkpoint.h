// The command `friday checkpoint`.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_checkpoint_command(CLI::App& app, int* status);

}  // namespace friday
