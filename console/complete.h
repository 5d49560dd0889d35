// Completion of the command friday in a shell: `friday completion bash|zsh` prints what a shell needs to source; that
// asks `friday __complete WORDS...` for the candidates.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace friday {

void add_completion_command(CLI::App& app, int* status);

// What the last of the words, which may be empty, can become; empty if the shell shall complete the name of a file.
// `words`: behind the name of the command.
std::vector<std::string> complete_words(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace friday
