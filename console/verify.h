// `friday verify`: replays a recording without a debugger and says whether it repeats.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_verify_command(CLI::App& app, int* status);

}  // namespace friday
