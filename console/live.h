// What can be asked of a recording that is being made now: whether it is, by which process, its size and its rate
// (friday live, friday info --live), and to save what it holds (friday live REC save).
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace friday {

// Prints the state and returns an exit code.
int show_live(const std::string& recording, bool as_json);

void add_live_command(CLI::App& app, int* status);

}  // namespace friday
