// GROUP.toml: what `friday record --group` runs. docs/record.md documents the keys.
#pragma once

#include <string>

#include "core/record/launch.h"

namespace friday {

// Parses the file; every unknown key, wrong type or impossible value is an error that names the line.
Result<GroupSpec> read_group(const std::string& path);

}  // namespace friday
