// Watches on memory that several replayed processes map. A range that is watched in one process (its owner) is watched
// as well wherever a process maps the same bytes of the same object: there it is a *mirror*, of which nobody but the
// replay knows. Whatever touches a mirror has the owner's range compared, and what changed is the owner's hit, which
// names the writer. What a system call writes into a mapped file no page sees: the shim tells of it (kTrapShared), and
// all ranges on shared memory are compared.
//
// Owned by ReplaySession, on its thread.
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
  using Nodes = std::map<NodeId, std::unique_ptr<ReplayNode>>;
  explicit SharedWatches(const Nodes& nodes) : nodes_(nodes) {}

  // A process has mapped something shared.
  void note_mapping() { any_shared_ = stale_ = true; }
  // A process is there that is the copy of another one.
  void note_copy() { stale_ = any_shared_; }
  // All processes are gone.
  void clear();
  // Brings the mirrors in line with what is watched and mapped now; the nodes that have others than before, whose
  // watches are to be flushed. Costs nothing while nothing changed. `notices` gets what cannot be watched.
  Result<std::vector<ReplayNode*>> follow(std::vector<std::string>& notices);
  // What a hit at `writer` means to those who watch: a stop for each node concerned, that of the writer first. None:
  // nothing.
  Result<std::vector<Stop>> judge(Stop stop, ReplayNode& writer);
  // The same of a call of `writer` that has changed a shared object.
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
  std::map<NodeId, uint64_t> versions_;                 // of the nodes' watches when they were looked at
  std::map<NodeId, std::map<Mirror, uint32_t>> armed_;  // with their numbers
  std::map<uint32_t, Mirror> by_number_;
  std::set<std::pair<NodeId, Mirror>> ranges_;  // what is watched on shared memory, as its owner has it
  std::set<std::string> told_;
  uint32_t next_number_ = 1;
};

}  // namespace friday
