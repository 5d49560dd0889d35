// One order for all events of a recording. Every event gets a time of a hybrid logical clock: nanoseconds of the
// reference line, pushed forward where that would put an effect before its cause, and a counter. (l, c, node, sequence)
// is a total order, and it respects
//   - the order of each node's trace,
//   - every edge that matching found (a message is received after it was sent, a child starts after its fork, ...),
//   - on one host: an event that had returned before another was entered comes first, by the host's own clock. That
//   covers
//     every hidden channel between processes of a host.
// A Schedule is a value; any thread may read one. It is derived data, kept in the recording's cache.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/trace/mark.h"
#include "core/trace/matching.h"
#include "core/trace/recording.h"

namespace friday {

// `count` events of `node`, from `first`, with no event of another node between them.
struct Turn {
  NodeId node;
  uint32_t count;
  uint64_t first;
};

struct PairTraffic {
  uint64_t messages = 0, bytes = 0, duplicates = 0;
  std::array<uint64_t, kMatchedByCount> by{};  // messages, by MatchedBy
};

class Schedule {
 public:
  // Of all nodes whose traces are usable. `nodes` (if not empty) names those wanted: only then damage in another node's
  // trace is no failure, and messages from it count as from an unrecorded peer.
  static Result<Schedule> load_or_compute(const Recording& recording, std::span<const NodeId> nodes = {});
  // Without looking at or leaving a cache.
  static Result<Schedule> compute(const Recording& recording, std::span<const NodeId> nodes = {});

  // The nodes scheduled, by id.
  const std::vector<NodeId>& nodes() const { return nodes_; }
  uint64_t event_count() const { return total_; }
  uint64_t event_count(NodeId node) const;

  // The total order, in runs.
  const std::vector<Turn>& turns() const { return turns_; }
  // What `causal` order must keep, besides each node's own order; by (to, to_event). Between scheduled nodes only.
  const std::vector<Edge>& edges() const { return edges_; }
  // The same order and edges for some of the nodes.
  Schedule restricted_to(std::span<const NodeId> nodes) const;

  LogicalTime time_of(NodeId node, EventIndex event) const;
  // Where logical time begins: at the first event of the recording, also where only some of its nodes are scheduled (if
  // the others' traces could be read). People see logical times as seconds since then.
  int64_t origin() const { return origin_.value_or(0); }
  double seconds_of(NodeId node, EventIndex event) const {
    return static_cast<double>(time_of(node, event).l - origin()) / 1e9;
  }
  // Wall clock of the node's host around the event, in ns since 1970.
  int64_t realtime_ns(NodeId node, EventIndex event) const;
  // Of the event in the total order, from 0; and back (position below event_count()).
  uint64_t position_of(NodeId node, EventIndex event) const;
  Mark at_position(uint64_t position) const;
  // How many of `node`'s events lie before `position`: its part of that consistent cut.
  uint64_t events_before(NodeId node, uint64_t position) const;
  // Position of the first event at or after `time`.
  uint64_t position_at(const LogicalTime& time) const;

  std::map<std::pair<NodeId, NodeId>, PairTraffic> traffic_between() const;
  const NodeTraffic& traffic_of(NodeId node) const;
  // How each host's clock was put on the line of logical time, and the host (index in it) of a node.
  const std::vector<HostAlignment>& hosts() const { return hosts_; }
  uint32_t host_of(NodeId node) const { return host_of_[slot_of(node)]; }
  // Edges given up because they contradicted the rest; a false match. Usually none.
  const std::vector<Edge>& broken() const { return broken_; }

 private:
  friend class Scheduler;
  size_t slot_of(NodeId node) const;
  void build_positions();
  bool is_consistent() const;
  bool load(const Recording& recording, uint64_t fingerprint);
  void store(const Recording& recording, uint64_t fingerprint) const;

  std::vector<NodeId> nodes_;
  uint64_t total_ = 0;
  std::optional<int64_t> origin_;  // none: there is no event
  std::vector<Turn> turns_;
  std::vector<Edge> edges_, broken_;
  std::vector<NodeTraffic> traffic_;  // by slot
  std::vector<HostAlignment> hosts_;
  std::vector<uint32_t> host_of_;               // by slot
  std::vector<std::vector<int64_t>> l_, real_;  // by slot, by event
  std::vector<std::vector<uint32_t>> c_;
  std::vector<uint64_t> turn_positions_;           // of each turn's first event
  std::vector<std::vector<uint32_t>> node_turns_;  // by slot: its turns
};

// The order that `matches` leaves; the step of compute() that tests reach with edges of their own.
Schedule schedule_of(const FactSet& facts, const Matches& matches);

}  // namespace friday
