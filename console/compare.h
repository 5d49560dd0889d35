// `friday compare`: where the passing and the failing runs of a study differ.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_compare_command(CLI::App& app, int* status);

}  // namespace friday
