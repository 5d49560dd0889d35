// The order that CLOCK_MONOTONIC proves between the nodes of one host: an event that returned before another was
// entered happened before it. This covers hidden channels between processes (shared memory, terminals, the existence of
// a file) without knowing about any of them. The `clock` order keeps it by construction; for `causal` order it is
// expressed as edges, as few as possible.
#pragma once

#include <vector>

#include "core/trace/facts.h"

namespace friday {

// Event `from_event` of the node in slot `from` precedes event `to_event` of the node in slot `to`.
struct HostEdge {
  uint32_t from, to;
  uint64_t from_event, to_event;
};

// The edges that neither follow from other edges nor from the order within each node.
std::vector<HostEdge> host_order(const FactSet& facts);

// The same for the given nodes; slots in the result are indices into `nodes`.
Result<std::vector<HostEdge>> host_order(const Recording& recording, std::span<const NodeId> nodes);

}  // namespace friday
