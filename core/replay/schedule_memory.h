// The gates of a replay (core/trace/gates.h) as the shims read them: progress words, gates and posts in memory that the
// core and all nodes share. The class lays them out and decides nothing.
#pragma once

#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/shim/shim_abi.h"
#include "core/trace/gates.h"

namespace friday {

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
