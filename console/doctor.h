// friday doctor: tries in advance what this machine or container refuses to record and replay.
#pragma once

#include <CLI/CLI.hpp>

namespace friday {

void add_doctor_command(CLI::App& app, int* status);

}  // namespace friday
