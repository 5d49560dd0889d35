// Computes a Schedule from facts and matches (logical_time.h); private to core/trace.
//
// Events are taken from all nodes in the order of their points on the aligned clocks, by a heap of the nodes' next
// events. An event waits while one of its causes has not been taken. While it waits, no event of its host that was
// entered after it had returned is taken either. With well-aligned clocks hardly anything ever waits.
#pragma once

#include <cstdint>
#include <queue>
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
  struct Waiter {
    uint64_t event;  // of the node waited for
    uint32_t node;   // who waits
  };
  struct Node {
    uint64_t next = 0, count = 0;
    size_t edge = 0, edge_end = 0;  // its incoming edges that are not consumed, in edges_
    bool waiting = false;           // for a cause
    std::vector<Waiter> waiters;    // for this node's events
    bool done() const { return next == count; }
  };
  struct SlotEdge {
    uint32_t from, to;
    uint64_t from_event, to_event;
    uint32_t index;  // in matches
    bool dropped;
  };
  struct Host {
    Clock clock;
    uint32_t waiting = 0;         // nodes
    std::vector<uint32_t> held;   // nodes held back because another one of the host waits
    std::vector<uint32_t> order;  // slot of each event taken
  };

  void push(uint32_t slot);
  // The first cause of the node's next event that was not taken yet, or null.
  SlotEdge* missing_cause(uint32_t slot);
  bool held_back(uint32_t slot) const;
  void take(uint32_t slot);
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
