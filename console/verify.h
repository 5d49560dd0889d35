// `friday verify`: replays a recording without a debugger and reports whether the replay repeats it.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_verify_command(CLI::App& app, int* status);

}  // namespace friday
