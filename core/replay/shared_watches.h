// Watches on memory that several replayed processes map. A range watched in one process (the owner) is also watched in
// every other process that maps the same bytes of the same object; the range there is a *mirror*, which only the replay
// knows. When a mirror is hit, the owner's range is compared, and a change is reported as a hit of the owner that names
// the writing node. Page protection does not detect what a system call writes into a mapped file; the shim reports such
// writes (kTrapShared), and then all ranges on shared memory are compared.
//
// Owned by ReplaySession; used on its thread.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/replay/node.h"
#include "core/replay/stop.h"

namespace friday {

class SharedWatches {
 public:
  using Nodes = std::map<NodeId, std::shared_ptr<ReplayNode>>;
  explicit SharedWatches(const Nodes& nodes) : nodes_(nodes) {}

  // Call when a process has made a shared mapping.
  void note_mapping() { any_shared_ = stale_ = true; }
  // Call when a process was created as a copy of another one.
  void note_copy() { stale_ = any_shared_; }
  // Call when all processes are gone.
  void clear();
  // Updates the mirrors according to the current watches and mappings. Returns the nodes whose mirrors changed; the
  // caller must flush their watches. Cheap if nothing has changed. Appends to `notices` what cannot be watched.
  Result<std::vector<ReplayNode*>> follow(std::vector<std::string>& notices);
  // Translates a hit at `writer` into stops of the nodes that watch the memory; the stop of the writer comes first.
  // Empty if nobody is concerned.
  Result<std::vector<Stop>> judge(Stop stop, ReplayNode& writer);
  // The same for a system call of `writer` that has changed a shared object.
  Result<std::vector<Stop>> look_at_all(const Stop& at, ReplayNode& writer);

 private:
  struct Mirror {
    NodeId owner;
    StopPointId id;
    uint32_t index;
    Addr place;  // in the owner
    uint64_t size;
    Addr low;  // in the process that has the mirror
    WatchAccess access;
    auto operator<=>(const Mirror&) const = default;
  };
  struct SharedMap {
    uint64_t low, high, offset, inode;
  };
  static Result<std::vector<SharedMap>> maps_of(ReplayNode& node);
  Result<std::map<NodeId, std::set<Mirror>>> wanted(std::set<std::pair<NodeId, Mirror>>& ranges);
  Result<void> arm(ReplayNode& node, const Mirror& mirror, std::vector<std::string>& notices);
  Result<void> compare(ReplayNode& owner, Addr low, uint64_t size, std::map<NodeId, std::vector<WatchHit>>& hits);
  std::vector<Stop> stops_of(const Stop& at, ReplayNode& writer, std::map<NodeId, std::vector<WatchHit>> hits);

  const Nodes& nodes_;
  bool any_shared_ = false, stale_ = false;
  std::map<NodeId, uint64_t> versions_;                 // version of each node's watches at the last update
  std::map<NodeId, std::map<Mirror, uint32_t>> armed_;  // with their numbers
  std::map<uint32_t, Mirror> by_number_;
  std::set<std::pair<NodeId, Mirror>> ranges_;  // what is watched on shared memory, in terms of the owner
  std::set<std::string> told_;
  uint32_t next_number_ = 1;
};

}  // namespace friday
