// `friday refine`: an event of a run, or the same event of a run that failed and of one that passed, looked at by
// replay.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_refine_command(CLI::App& app, int* status);

}  // namespace friday
