#include "core/replay/companions.h"

#include "core/base/printable.h"

namespace friday {

Result<void> add_ancestors(const Recording& recording, std::set<NodeId>& nodes) {
  for (std::vector<NodeId> open(nodes.begin(), nodes.end()); !open.empty();) {
    const NodeId id = open.back();
    open.pop_back();
    const NodeInfo* info = recording.find(id);
    if (!info) return fail(ErrorCode::not_found, "node {}: the recording has no such node", id);
    if (info->problem) return std::unexpected(*info->problem);
    if (info->forked && !info->parent)
      return fail(ErrorCode::bad_input,
                  "node {} ({}) begins as a copy of a node that forked it, and the recording does not hold that one: "
                  "choose nodes without it (--node), or copy the recording again",
                  id, printable(info->name));
    if (info->parent && nodes.insert(*info->parent).second) open.push_back(*info->parent);
  }
  return {};
}

Result<void> add_memory_sharers(const Recording& recording, const Schedule& order, std::set<NodeId>& nodes,
                                const std::function<void(NodeId added, NodeId sharer)>& tell) {
  for (size_t before = 0; before != nodes.size();) {
    before = nodes.size();
    for (const Edge& edge : order.edges()) {
      if (edge.kind != EdgeKind::turn || nodes.contains(edge.from) == nodes.contains(edge.to)) continue;
      const auto [known, other] =
          nodes.contains(edge.from) ? std::pair(edge.from, edge.to) : std::pair(edge.to, edge.from);
      nodes.insert(other);
      if (tell) tell(other, known);
    }
    FRIDAY_TRY_VOID(add_ancestors(recording, nodes));
  }
  return {};
}

}  // namespace friday
