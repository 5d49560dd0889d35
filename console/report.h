// `friday report`: collects what is needed to report a replay that diverges, without contents (pyext/friday/report.py).
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_report_command(CLI::App& app, int* status);

}  // namespace friday
