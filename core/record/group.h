// Reads GROUP.toml, which tells `friday record --group` what to run. docs/record.md documents the keys.
#pragma once

#include <string>

#include "core/record/group_spec.h"

namespace friday {

// Parses the file. Unknown keys, wrong types and impossible values are errors that name the line.
Result<GroupSpec> read_group(const std::string& path);

}  // namespace friday
