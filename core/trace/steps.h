// What `friday record` did to the processes of nodes, and to the network between them, by the events of its group file.
// The recorder notes each step in the directory of its node (steps.jsonl), so that a merged recording has them too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/logical_time.h"
#include "core/trace/recording.h"

namespace friday {

struct Step {
  NodeId node{};
  std::string what;         // "kill", "stop", "continue", "restart", "partition", "heal", "delay" or "loss"
  std::string detail;       // of the network: "n1 | n2, n3", "n1 - n2: 50 ms"; empty for what happened to the process
  LogicalTime time;         // placed by the clock of the node's host
  uint64_t position = 0;    // of the first event of the group that is not before it
  int64_t realtime_ns = 0;  // CLOCK_REALTIME
};

// The steps of the nodes that the order knows, by time. What is damaged is left out.
std::vector<Step> steps_of(const Recording& recording, const Schedule& schedule);

}  // namespace friday
