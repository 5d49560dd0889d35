// `friday force`: runs a study's group again with its messages held back so that an order comes true.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_force_command(CLI::App& app, int* status);

}  // namespace friday
