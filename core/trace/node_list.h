// Parses node lists as users type them: "4", "4,5", "0-9,!3", "redis-*", "primary".
#pragma once

#include <string>
#include <vector>

#include "core/trace/recording.h"

namespace friday {

Result<std::vector<NodeId>> parse_node_list(const Recording& recording, const std::string& text);

}  // namespace friday
