// `friday run`: Python scripts against recordings, with an exit code that says what came of it.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace friday {

// The words after the first `--` of a `friday run`, which are taken away; none for other commands.
std::vector<std::string> take_script_args(int& argc, char** argv);

void add_run_command(CLI::App& app, int* status, std::vector<std::string> script_args);

}  // namespace friday
