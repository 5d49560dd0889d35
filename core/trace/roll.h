// Which nodes each recorder has left in a recording when it ended: REC/roll/, a small file for each recorder. A node
// that stands there and is not among the nodes was removed later, or was not copied. Nothing else says so: its messages
// look like those of somebody who was never recorded. Nodes that a recorder removes itself (--keep, standby) do not
// stand there, and a recording without rolls, as of a recorder that was killed, claims nothing.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

struct RolledNode {
  NodeId id;
  std::string name;
};

// Notes the nodes among these that are in the recording now, under a name that no other recorder uses.
Result<void> write_roll(const std::string& recording, const std::string& name, const std::vector<RolledNode>& nodes);

// Call when nodes are removed on purpose. `ids`: as their directories are called.
Result<void> strike_from_rolls(const std::string& recording, const std::vector<std::string>& ids);

// The nodes that a roll has and the recording has not.
std::vector<RolledNode> missing_nodes(const std::string& recording);

// "node 1 (web) was recorded, but is not here any more: ...", or empty.
std::string missing_text(const std::vector<RolledNode>& missing);

}  // namespace friday
