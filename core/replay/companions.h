// Which nodes must be replayed besides those that somebody asks for.
#pragma once

#include <functional>
#include <set>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/trace/logical_time.h"
#include "core/trace/recording.h"

namespace friday {

// A forked node begins as a copy of its parent: adds all ancestors of the nodes. Fails with not_found if the recording
// has no such node, with bad_input if an ancestor is missing, and with what is wrong with a node's trace.
Result<void> add_ancestors(const Recording& recording, std::set<NodeId>& nodes);

// A node reads from shared memory what others have stored there: adds these, and their ancestors. `tell`, if it is
// given, is called with each one that is added and the node with which it shares memory. Fails as add_ancestors() does.
Result<void> add_memory_sharers(const Recording& recording, const Schedule& order, std::set<NodeId>& nodes,
                                const std::function<void(NodeId added, NodeId sharer)>& tell = {});

}  // namespace friday
