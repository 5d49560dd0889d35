// friday doctor: what this machine or container refuses, tried in advance.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_doctor_command(CLI::App& app, int* status);

}  // namespace friday
