// What CLOCK_MONOTONIC says of the nodes of one host: an event that had returned before another was entered comes
// first. It covers every hidden channel between them (shared memory, terminals, a file's existence) without knowing of
// any. `clock` order keeps it by itself; for `causal` it is made into edges, as few as say all of it.
#pragma once

#include <vector>

#include "core/trace/facts.h"

namespace friday {

// `from_event` of the node in slot `from` comes before `to_event` of the one in slot `to`.
struct HostEdge {
  uint32_t from, to;
  uint64_t from_event, to_event;
};

// Those that follow from no others of them and the nodes' own order.
std::vector<HostEdge> host_order(const FactSet& facts);

// The same of a recording's nodes, by their places in `nodes`.
Result<std::vector<HostEdge>> host_order(const Recording& recording, std::span<const NodeId> nodes);

}  // namespace friday
