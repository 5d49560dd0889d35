// `friday compare`: where the passing and the failing runs of a study differ.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace friday {

struct ComparisonOptions {
  size_t most = 5;  // findings of each kind
  bool as_json = false;
  bool by_subsequences = false;                   // the ranking of the paper instead (core/study/subsequences.h)
  std::vector<std::string> ignored{}, classes{};  // UserClasses::parse()
};
// Compares the runs of a study and prints what was found. Returns the exit code; `command` is the subcommand that asks.
int compare_study(const char* command, const std::string& study, const ComparisonOptions& options);

// --ignore and --class.
void add_class_options(CLI::App& command, std::vector<std::string>& ignored, std::vector<std::string>& classes);

void add_compare_command(CLI::App& app, int* status);

}  // namespace friday
