// One total order of all events of a recording. Every event gets a time of a hybrid logical clock (Kulkarni et al.,
// "Logical Physical Clocks", 2014): a physical part `l`, in nanoseconds of the reference line (clock.h), which is moved
// forward where an effect would otherwise come before its cause, and a counter `c`. Events are ordered by (l, c, node,
// event number). That order respects
//   - the order of each node's trace,
//   - every edge that matching found (a message is received after it was sent, a child starts after its fork, ...),
//   - on one host, the clock: an event that returned before another was entered comes first, which covers every
//     hidden channel between processes of the host.
//
// A Schedule is immutable derived data, kept in the recording's cache; any thread may read it.
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

// `count` consecutive events of `node`, starting with event `first`, with no event of another node between them.
struct Turn {
  NodeId node;
  uint32_t count;
  uint64_t first;
};

struct PairTraffic {
  uint64_t messages = 0, bytes = 0, duplicates = 0;
  std::array<uint64_t, kMatchedByCount> by{};  // how many messages each method matched, indexed by MatchedBy
};

class Schedule {
 public:
  // Schedules all nodes whose traces are usable, or only `nodes` if that is not empty. In the second case damage in
  // another node's trace is not an error, and messages from that node count as sent by an unrecorded peer.
  static Result<Schedule> load_or_compute(const Recording& recording, std::span<const NodeId> nodes = {});
  // The same, but neither reads nor writes the cache.
  static Result<Schedule> compute(const Recording& recording, std::span<const NodeId> nodes = {});

  // The scheduled nodes, ordered by id.
  const std::vector<NodeId>& nodes() const { return nodes_; }
  uint64_t event_count() const { return total_; }
  uint64_t event_count(NodeId node) const;

  // The total order as a list of turns.
  const std::vector<Turn>& turns() const { return turns_; }
  // The edges that `causal` order must keep in addition to each node's own order, sorted by (to, to_event). Both ends
  // are scheduled nodes.
  const std::vector<Edge>& edges() const { return edges_; }
  // The same order and edges, restricted to some of the nodes.
  Schedule restricted_to(std::span<const NodeId> nodes) const;

  LogicalTime time_of(NodeId node, EventIndex event) const;
  // Zero of logical time as users see it, in ns of the reference line: the time of the recording's first event. It does
  // not depend on which nodes are scheduled, as long as the traces of the others can be read.
  int64_t origin() const { return origin_.value_or(0); }
  double seconds_of(NodeId node, EventIndex event) const {
    return static_cast<double>(time_of(node, event).l - origin()) / 1e9;
  }
  // CLOCK_REALTIME of the node's host at the event, in ns since 1970.
  int64_t realtime_ns(NodeId node, EventIndex event) const;
  // The event's position in the total order, from 0. at_position() is the inverse; `position` must be less than
  // event_count().
  uint64_t position_of(NodeId node, EventIndex event) const;
  Mark at_position(uint64_t position) const;
  // How many events of `node` come before `position`: the node's part of the consistent cut there.
  uint64_t events_before(NodeId node, uint64_t position) const;
  // The position of the first event at or after `time`.
  uint64_t position_at(const LogicalTime& time) const;
  // The same for seconds since origin(), compared with the microsecond precision in which times are shown.
  uint64_t position_at(double seconds) const;

  std::map<std::pair<NodeId, NodeId>, PairTraffic> traffic_between() const;
  const NodeTraffic& traffic_of(NodeId node) const;
  // How each host's clock was aligned, and the index in hosts() of a node's host.
  const std::vector<HostAlignment>& hosts() const { return hosts_; }
  uint32_t host_of(NodeId node) const { return host_of_[slot_of(node)]; }
  // Edges that were dropped because they would have closed a cycle, so they must be false matches. Usually empty.
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
  std::optional<int64_t> origin_;  // empty if the recording has no event
  std::vector<Turn> turns_;
  std::vector<Edge> edges_, broken_;
  std::vector<NodeTraffic> traffic_;  // by node slot
  std::vector<HostAlignment> hosts_;
  std::vector<uint32_t> host_of_;               // by node slot
  std::vector<std::vector<int64_t>> l_, real_;  // by node slot, then by event
  std::vector<std::vector<uint32_t>> c_;
  std::vector<uint64_t> turn_positions_;           // position of each turn's first event
  std::vector<std::vector<uint32_t>> node_turns_;  // by node slot: indices into turns_
};

// Computes the order from `matches`. It is a step of compute(); tests call it with edges of their own.
Schedule schedule_of(const FactSet& facts, const Matches& matches);

}  // namespace friday
