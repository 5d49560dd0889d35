// `friday record`: the command line of the recorder.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

// Adds the subcommand. When it has run, `*status` is the exit code.
void add_record_command(CLI::App& app, int* status);

}  // namespace friday
