// `friday replay`: the interactive console for a recording.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

// Lets the options of `friday replay` be written as gdb has them, with -ex. Call before they are parsed.
void accept_gdbs_ex(int argc, char** argv);
void add_replay_command(CLI::App& app, int* status);

}  // namespace friday
