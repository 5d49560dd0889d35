// Computes a Schedule (logical_time.h) from facts and matches; private to core/trace.
//
// A heap yields the next events of all nodes in the order of their aligned clock times. An event waits until all its
// causes have been scheduled. While it waits, no event of the same host that was entered after it returned is scheduled
// either. With well-aligned clocks hardly any event has to wait.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <set>
#include <vector>

#include "core/trace/facts.h"
#include "core/trace/logical_time.h"

namespace friday {

class Scheduler {
 public:
  Scheduler(const FactSet& facts, const Matches& matches);
  Schedule run();

 private:
  struct Entry {
    int64_t ns;
    uint64_t ticks;
    uint32_t node;
    bool operator>(const Entry& other) const {
      return std::tie(ns, ticks, node) > std::tie(other.ns, other.ticks, other.node);
    }
  };
  struct Clock {
    int64_t l = INT64_MIN;
    uint32_t c = 0;
    auto operator<=>(const Clock&) const = default;
  };
  struct Node {
    uint64_t next = 0, count = 0;
    size_t edge = 0, edge_end = 0;              // range in edges_ of its incoming edges that are not consumed yet
    bool waiting = false;                       // the next event waits for a cause
    std::multimap<uint64_t, uint32_t> waiters;  // event of this node -> node slot of a node that waits for it
    bool done() const { return next == count; }
  };
  struct SlotEdge {
    uint32_t from, to;
    uint64_t from_event, to_event;
    uint32_t index;  // index in Matches::edges
    bool dropped;
  };
  struct Host {
    Clock clock;
    std::multiset<uint64_t> waiting;  // when the next events of its nodes that wait for a cause returned
    std::vector<uint32_t> held;       // nodes held back because another node of the host waits
    std::vector<uint32_t> order;      // node slot of each scheduled event, in order
  };

  void push(uint32_t slot);
  // The first cause of the node's next event that is not scheduled yet, or null.
  SlotEdge* missing_cause(uint32_t slot);
  bool held_back(uint32_t slot) const;
  void take(uint32_t slot);
  void wait_for(uint32_t slot, const SlotEdge& cause);
  void wait_no_more(uint32_t slot);
  void wake(uint32_t slot);
  void break_a_cycle();
  void merge_hosts();
  void append_turn(uint32_t slot);
  Entry entry_of(uint32_t slot) const;
  const EventTime& next_time(uint32_t slot) const { return facts_.nodes[slot].times[nodes_[slot].next]; }
  Host& host_of(uint32_t slot) { return hosts_[facts_.nodes[slot].host]; }

  const FactSet& facts_;
  const Matches& matches_;
  std::vector<Node> nodes_;
  std::vector<Host> hosts_;
  std::vector<SlotEdge> edges_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
  Schedule schedule_;
  std::vector<uint64_t> turn_next_;
};

}  // namespace friday
