// How the command line is explained: in help texts, and where something on it is wrong.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace friday {

// Help texts with types that a person can read, such as "N (1 to 64)" or "clock|causal|free".
std::shared_ptr<CLI::Formatter> make_help_formatter();

// What is wrong with a command line that `app` has refused, as the line to be printed. `error`: what it has thrown.
std::string refusal_of(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

}  // namespace friday
