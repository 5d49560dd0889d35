// `friday run`: a Python script against a recording, with an exit code that says what came of it.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_run_command(CLI::App& app, int* status);

}  // namespace friday
