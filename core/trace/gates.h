// What each node of a replay has to wait for: tables made from the recorded order by a pure function, which the shims
// follow by themselves (core/shim/replay.cc, pass_gates). No process is asked while the group runs.
//
// A node comes to the entry of its event number `event`. If that number is among its posts, it publishes it: it has
// done so many events. Then, for each gate with this number, it waits until the node in slot `slot` has published at
// least `done`. Then it does the event. A node that has ended has done more events than any number.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/shim/shim_abi.h"
#include "core/trace/host_order.h"
#include "core/trace/logical_time.h"
#include "core/trace/node_end.h"

namespace friday {

// How much of the recorded order a replay keeps between nodes.
enum class SyncMode {
  clock,   // all of it: one event of the group at a time, in the order of logical time
  causal,  // what messages and the other edges imply, and what one host's clock proves (core/trace/host_order.h)
  free,    // nothing but turns on memory that nodes share, without which they would read other values
};
const char* name_of(SyncMode mode);
std::optional<SyncMode> sync_mode_named(std::string_view name);

struct NodeGates {
  std::vector<shim::Gate> gates;  // by event, rising; the last one, for event ~0, is never reached
  std::vector<uint64_t> posts;    // rising, each once; the last one is ~0
};

// The gates of each node of `order.nodes()`, in that order; Gate::slot is an index into it as well. `ends`: in `clock`
// order what comes behind the end of a node waits for it, and a node that was killed waits for its end. `host_edges`
// matter in `causal` order only.
std::vector<NodeGates> make_gates(const Schedule& order, SyncMode mode, const std::map<NodeId, EndPlace>& ends,
                                  std::span<const HostEdge> host_edges = {});

}  // namespace friday
