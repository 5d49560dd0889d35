// The schedule as the shims read it: progress words, gates and posts in memory that the core and all nodes share.
// Policy is in make_gates(), a pure function; the class only lays its result out.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/shim/shim_abi.h"
#include "core/trace/host_order.h"
#include "core/trace/logical_time.h"
#include "core/trace/node_end.h"

namespace friday {

// How strictly the recorded order is kept: full order of all events, only what messages and other edges imply, nothing
// between nodes.
enum class SyncMode { clock, causal, free };
const char* name_of(SyncMode mode);

struct NodeGates {
  std::vector<shim::Gate> gates;  // by event
  std::vector<uint64_t> posts;    // by event
};

// Gates of each node of `order.nodes()`, by slot. `ends`: in `clock` order what comes behind the end of a node waits
// for it, and a node that was killed waits for its end. `host_edges`: for `causal`, what one host's clock orders.
std::vector<NodeGates> make_gates(const Schedule& order, SyncMode mode, const std::map<NodeId, EndPlace>& ends,
                                  std::span<const HostEdge> host_edges = {});

class ScheduleMemory {
 public:
  static Result<std::unique_ptr<ScheduleMemory>> create(const std::vector<NodeGates>& nodes);
  ~ScheduleMemory();

  int fd() const { return fd_.get(); }
  uint64_t size() const { return size_; }
  // Address, in every node, of the NodeSchedule of `slot`.
  static uint64_t node_address(size_t slot);
  // The node of `slot` will do nothing more: whoever waits for it goes on.
  void finish(size_t slot);
  uint64_t done(size_t slot) const;

 private:
  ScheduleMemory() = default;
  UniqueFd fd_;
  uint64_t size_ = 0;
  shim::SharedSchedule* shared_ = nullptr;
};

}  // namespace friday
