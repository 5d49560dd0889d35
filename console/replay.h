// `friday replay`: the interactive console for a recording.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_replay_command(CLI::App& app, int* status);

}  // namespace friday
