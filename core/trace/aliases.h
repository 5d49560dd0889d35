// Which nodes the names mean that the user gave to wrappers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace friday {

struct NodeInfo;

// A daemon may be started through programs that only prepare its start: `ip netns exec NS daemon`, `env A=1 daemon`,
// `sh -c '...; exec daemon'`, `setsid daemon`. The name that the user gave to the whole means the daemon then: the last
// program of the process, by execve(2). If that is a wrapper, such as a shell or setsid(1), and has started exactly one
// program, then that program, and so on. If a shell has started several programs, the name remains the shell's.
//
// Returns these names, each with the node that it means instead of the node that has it as its own name. Needs the
// names of the nodes and who made them.
std::map<NodeId, std::string> aliases_of(const std::vector<NodeInfo>& nodes);

// The name for people: that of the node, preceded by its alias if it has one, such as "n1 = n1/exec-1".
std::string full_name(const NodeInfo& node, const std::map<NodeId, std::string>& aliases);

}  // namespace friday
