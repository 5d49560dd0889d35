// Stop points as a person sees them: one breakpoint or watchpoint, one global id, over any set of nodes. Here are only
// the facts and the counting; where a stop point stands in a node (addresses, ranges) is kept as instances, which the
// session fills in and core/stop/breakpoints.h and watch.h put in force. No gdb, no ptrace, no Python.
//
// Owned by the session, used by its thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

// Global id of a stop point: from 1, in order of creation, never used again.
struct StopPointId {
  uint32_t value = 0;
  auto operator<=>(const StopPointId&) const = default;
};

enum class StopKind : uint8_t { breakpoint, watchpoint };

// What a watchpoint is about: stores, reads, or both.
enum class WatchAccess : uint8_t { write, read, any };

// Which nodes a stop point covers. Numbers mean one process each; names follow the process across restarts (NAME covers
// NAME#2) but not to its children.
struct NodeSelection {
  bool all = false;
  std::vector<NodeId> ids;
  std::vector<std::string> names;
  std::vector<NodeId> except;

  bool covers(NodeId id, std::string_view name) const;
};

// Where a stop point stands in one node: one address of a breakpoint (an inlined function has several), or one range of
// a watchpoint (a pointer chain has one a link).
struct StopInstance {
  Addr address{};
  uint64_t size = 0;   // bytes watched; 0 for a breakpoint
  uint32_t index = 0;  // number of the location, or of the range: unique within the node
  std::string place;   // "chord.c:58" or the expression of the link, for people
};

struct StopPoint {
  StopPointId id{};
  StopKind kind = StopKind::breakpoint;
  NodeSelection nodes;
  std::string location;                  // of a breakpoint, as typed
  std::vector<std::string> expressions;  // of a watchpoint, as typed
  std::string condition;                 // C expression, or empty
  uint64_t hit_count = 0;                // hits whose condition held, ignored ones included
  uint64_t ignore_count = 0;             // hits still to be passed over
  bool enabled = true;
  bool may_wait = false;   // what it names may be in a library that no node has loaded yet
  bool temporary = false;  // deleted by its first stop
  WatchAccess access = WatchAccess::write;
  bool any_write = false;  // a watch that also reports a write of the same value
  bool any_page = false;   // a watch that protects pages of stacks and thread blocks too
  bool by_place = false;   // a watch of the memory that the expressions mean now
  // Per node; a node of `nodes` without an entry is pending there, with the reason in `pending` when one is known.
  std::map<NodeId, std::vector<StopInstance>> instances;
  std::map<NodeId, std::string> pending;
  bool placed = false;  // it has been in force on some node
};

// What one hit means for the group, before any handler runs.
enum class HitVerdict : uint8_t { run_handlers, ignored, disabled };

class StopPoints {
 public:
  // `point.id` is given here and returned. Refused when there is neither a location nor an expression.
  Result<StopPointId> add(StopPoint point);
  Result<void> remove(StopPointId id);
  // Takes back the one added last, which nobody has seen: its id is the next one's.
  void withdraw(StopPointId id);

  StopPoint* find(StopPointId id);
  const StopPoint* find(StopPointId id) const;
  Result<StopPoint*> get(StopPointId id);  // find, with "no breakpoint number N" as error

  // In id order; the handler of one may add and remove others while a caller walks over ids().
  std::vector<StopPointId> ids() const;
  size_t size() const { return points_.size(); }

  // Enabled stop points that cover the node: what must be in force there.
  std::vector<StopPointId> for_node(NodeId node, std::string_view name) const;

  // One hit whose condition held: counts it and says whether it is passed over. A temporary point is not removed here:
  // the session does so when the group stops for it.
  HitVerdict count_hit(StopPointId id);

  // The node's process is gone: its instances are no longer in force, the stop points stay.
  void forget_node(NodeId node);

 private:
  std::map<StopPointId, StopPoint> points_;
  uint32_t last_id_ = 0;
};

}  // namespace friday

template <>
struct std::hash<friday::StopPointId> {
  size_t operator()(friday::StopPointId id) const noexcept { return id.value; }
};
