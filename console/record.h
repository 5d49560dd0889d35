// `friday record`: the command line of the recorder.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

// Adds the subcommand; `*status` becomes the exit code when it has run.
void add_record_command(CLI::App& app, int* status);

}  // namespace friday
