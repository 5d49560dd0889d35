// `friday replay`: the interactive console over a recording.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_replay_command(CLI::App& app, int* status);

}  // namespace friday
