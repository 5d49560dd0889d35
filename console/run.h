// `friday run`: runs Python scripts on recordings; its exit code tells the outcome.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace friday {

// Removes and returns the words after the first `--` of a `friday run` command; empty for other commands.
std::vector<std::string> take_script_args(int& argc, char** argv);

void add_run_command(CLI::App& app, int* status, std::vector<std::string> script_args);

}  // namespace friday
