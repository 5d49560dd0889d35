// `friday info`: describes a recording without replaying it.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_info_command(CLI::App& app, int* status);

}  // namespace friday
