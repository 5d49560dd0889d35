// The gates of a replay (core/trace/gates.h) as the shims read them: progress words, gates and posts in memory that the
// core and all nodes share. The class lays them out and decides nothing.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/replay/restoring.h"
#include "core/shim/shim_abi.h"
#include "core/trace/gates.h"

namespace friday {

class ScheduleMemory {
 public:
  // Of one node: the events of which contents are not compared, and for how many more there must be room.
  struct Unchecked {
    std::vector<uint64_t> events;
    uint64_t room = 0;
  };
  // `ids`: the nodes by slot. `restoring`: what the nodes exchange while payload is made again, or null. `directory`:
  // where to keep those bytes if they are too many for the memory.
  static Result<std::unique_ptr<ScheduleMemory>> create(const std::vector<NodeGates>& nodes,
                                                        const std::vector<NodeId>& ids,
                                                        const std::map<NodeId, Unchecked>& unchecked,
                                                        const RestoringTables* restoring, const Beneath& directory);
  ~ScheduleMemory();

  int fd() const { return fd_.get(); }
  uint64_t size() const { return size_; }
  // Where in the file the bytes begin that nodes exchange while payload is made again.
  uint64_t exchanged_at() const { return exchanged_at_; }
  // The address of the NodeSchedule of `slot`, the same in every node.
  static uint64_t node_address(size_t slot);
  // Whether the address, in a node, is in the progress words of the nodes, which only a thread before its next event
  // uses.
  static bool is_progress(uint64_t address);
  // Call when the node of `slot` will do nothing more: nodes that wait for it continue.
  void finish(size_t slot);
  uint64_t done(size_t slot) const;
  // The event's contents are not compared. There must be room for it, and no process may run.
  void leave_unchecked(size_t slot, uint64_t event);
  // What all nodes have published, and how many of their threads wait for it. No process may run meanwhile.
  std::vector<shim::Progress> progress() const;
  void set_progress(const std::vector<shim::Progress>& progress);

 private:
  ScheduleMemory() = default;
  UniqueFd fd_;
  Result<void> make_file(const Beneath& directory);

  uint64_t size_ = 0, exchanged_at_ = 0;
  shim::SharedSchedule* shared_ = nullptr;
  std::vector<uint64_t> unchecked_room_;  // by slot: how many events the array has room for
};

}  // namespace friday
