// `friday diagnose`: runs a script against a group many times, and compares the runs in which it failed with the
// others.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_diagnose_command(CLI::App& app, int* status);

}  // namespace friday
