// Reads GROUP.toml, which tells `friday record --group` what to run. docs/record.md documents the keys.
#pragma once

#include <string>

#include "core/record/group_spec.h"

namespace friday {

// Parses the file. Unknown keys, wrong types and impossible values are errors that name the line.
Result<GroupSpec> read_group(const std::string& path);

// Fails if the group has predicates, which need a replay, although only schedules are to be kept.
Result<void> check_judged_by_schedules(const GroupSpec& group);

}  // namespace friday
