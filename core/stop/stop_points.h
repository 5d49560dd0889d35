// Stop points as users see them: a breakpoint or watchpoint with one global id, on any set of nodes. This class keeps
// only their properties and counts hits. Where a stop point is placed in a node (addresses, ranges) is stored as
// instances, which the session fills in and core/stop/breakpoints.h and watch.h put into effect. Independent of gdb,
// ptrace and Python.
//
// Owned by the session; used only by its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

// Global id of a stop point: counts from 1 in order of creation and is never reused.
struct StopPointId {
  uint32_t value = 0;
  auto operator<=>(const StopPointId&) const = default;
};

enum class StopKind : uint8_t { breakpoint, watchpoint, timer, catchpoint };

// Which accesses a watchpoint reports: writes, reads, or both.
enum class WatchAccess : uint8_t { write, read, any };

// One place of a stop point in one node: an address of a breakpoint (an inlined function has several), or a range of a
// watchpoint (a pointer chain has one for each link).
struct StopInstance {
  Addr address{};
  uint64_t size = 0;   // bytes watched; 0 for a breakpoint
  uint32_t index = 0;  // number of the address or range; unique within the stop point and node
  std::string place;   // for people: "chord.c:58", or the expression of the link
};

struct StopPoint {
  StopPointId id{};
  StopKind kind = StopKind::breakpoint;
  std::vector<NodeId> nodes;
  std::string location;                  // of a breakpoint or catchpoint, as typed; of a timer, its period
  std::vector<std::string> expressions;  // for a watchpoint, as the user typed them
  std::string condition;                 // a C expression; empty if there is none
  uint64_t hit_count = 0;                // hits whose condition held, including ignored ones
  uint64_t ignore_count = 0;             // how many further hits to ignore
  bool enabled = true;
  bool may_wait = false;   // the location may be in a library that no node has loaded yet
  bool temporary = false;  // delete it after its first stop
  WatchAccess access = WatchAccess::write;
  bool any_write = false;  // watchpoint that also reports writes of the same value
  bool any_page = false;   // watchpoint that may protect pages of stacks and thread-local storage too
  // watches the memory that the expressions denote now, even if they come to denote other memory
  bool by_place = false;
  // By node. If a node of `nodes` has no entry, the stop point is pending there; `pending` has the reason if one is
  // known.
  std::map<NodeId, std::vector<StopInstance>> instances;
  std::map<NodeId, std::string> pending;
  bool placed = false;  // it has been in effect on some node
};

// What a hit means for the group; decided before any handler runs.
enum class HitVerdict : uint8_t { run_handlers, ignored, disabled };

class StopPoints {
 public:
  // Assigns `point.id` and returns it. Fails if there is neither a location nor an expression.
  Result<StopPointId> add(StopPoint point);
  Result<void> remove(StopPointId id);
  // Removes the stop point that was added last and has not been shown to anybody; its id will be reused.
  void withdraw(StopPointId id);

  StopPoint* find(StopPointId id);
  const StopPoint* find(StopPointId id) const;
  Result<StopPoint*> get(StopPointId id);  // like find(), but fails with "no breakpoint number N"

  // In order of id. A copy, so that handlers may add and remove stop points while the caller iterates.
  std::vector<StopPointId> ids() const;
  size_t size() const { return points_.size(); }

  // Counts a hit whose condition held and returns whether to ignore it. Does not remove a temporary stop point: the
  // session does that when the group stops for it.
  HitVerdict count_hit(StopPointId id);

 private:
  std::map<StopPointId, StopPoint> points_;
  uint32_t last_id_ = 0;
};

}  // namespace friday

template <>
struct std::hash<friday::StopPointId> {
  size_t operator()(friday::StopPointId id) const noexcept { return id.value; }
};
