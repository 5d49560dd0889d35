// `friday log`: prints what all nodes wrote to their standard output and error, as one stream in causal order.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_log_command(CLI::App& app, int* status);

}  // namespace friday
