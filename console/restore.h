// `friday restore`: makes payload again that a recording leaves out (core/replay/restoring.h).
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_restore_command(CLI::App& app, int* status);

}  // namespace friday
