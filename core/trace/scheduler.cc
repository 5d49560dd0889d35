#include "core/trace/scheduler.h"

#include <algorithm>
#include <tuple>

#include "core/base/check.h"

namespace friday {

Scheduler::Scheduler(const FactSet& facts, const Matches& matches)
    : facts_(facts), matches_(matches), nodes_(facts.nodes.size()), hosts_(facts.clocks.size()) {
  std::map<NodeId, uint32_t> slots;
  for (uint32_t slot = 0; slot < facts.nodes.size(); ++slot) {
    slots[facts.nodes[slot].id] = slot;
    nodes_[slot].count = facts.nodes[slot].times.size();
  }
  for (uint32_t n = 0; n < matches.edges.size(); ++n) {
    const Edge& edge = matches.edges[n];
    edges_.push_back({slots.at(edge.from), slots.at(edge.to), edge.from_event, edge.to_event, n, false});
  }
  std::ranges::stable_sort(edges_, {}, [](const SlotEdge& edge) { return std::pair(edge.to, edge.to_event); });
  for (size_t n = 0; n < edges_.size(); ++n) {
    Node& node = nodes_[edges_[n].to];
    if (node.edge_end == 0) node.edge = n;
    node.edge_end = n + 1;
  }
}

Scheduler::Entry Scheduler::entry_of(uint32_t slot) const {
  uint64_t ticks = next_time(slot).point();
  uint32_t host = facts_.nodes[slot].host;
  return {matches_.hosts[host].map(facts_.clocks[host].monotonic_ns(ticks)), ticks, slot};
}

void Scheduler::push(uint32_t slot) {
  if (!nodes_[slot].done()) heap_.push(entry_of(slot));
}

Scheduler::SlotEdge* Scheduler::missing_cause(uint32_t slot) {
  Node& node = nodes_[slot];
  for (size_t n = node.edge; n < node.edge_end && edges_[n].to_event <= node.next; ++n)
    if (!edges_[n].dropped && nodes_[edges_[n].from].next <= edges_[n].from_event) return &edges_[n];
  return nullptr;
}

// Whether another node of the host is waiting with an event that returned before this node's next event was entered.
bool Scheduler::held_back(uint32_t slot) const {
  const std::multiset<uint64_t>& waiting = hosts_[facts_.nodes[slot].host].waiting;
  return !waiting.empty() && *waiting.begin() < next_time(slot).entry;
}

void Scheduler::wait_for(uint32_t slot, const SlotEdge& cause) {
  nodes_[slot].waiting = true;
  host_of(slot).waiting.insert(next_time(slot).back);
  nodes_[cause.from].waiters.emplace(cause.from_event, slot);
}

// Continues a node, and those that were held back because of it.
void Scheduler::wait_no_more(uint32_t slot) {
  Host& host = host_of(slot);
  nodes_[slot].waiting = false;
  host.waiting.erase(host.waiting.find(next_time(slot).back));
  push(slot);
  for (uint32_t held : host.held) push(held);
  host.held.clear();
}

void Scheduler::take(uint32_t slot) {
  Node& node = nodes_[slot];
  Host& host = host_of(slot);
  Clock clock{entry_of(slot).ns, 0};
  auto after = [&](const Clock& cause) {
    if (cause >= clock) clock = {cause.l, cause.c + 1};
  };
  after(host.clock);
  for (; node.edge < node.edge_end && edges_[node.edge].to_event <= node.next; ++node.edge) {
    const SlotEdge& edge = edges_[node.edge];
    if (edge.dropped) continue;
    after({schedule_.l_[edge.from][edge.from_event], schedule_.c_[edge.from][edge.from_event]});
  }
  host.clock = clock;
  schedule_.l_[slot].push_back(clock.l);
  schedule_.c_[slot].push_back(clock.c);
  schedule_.real_[slot].push_back(facts_.clocks[facts_.nodes[slot].host].realtime_ns(next_time(slot).point()));
  if (hosts_.size() == 1) append_turn(slot);
  else host.order.push_back(slot);
  ++node.next;
  if (!node.waiters.empty()) wake(slot);
}

// Continues the nodes that waited for an event of this node.
void Scheduler::wake(uint32_t slot) {
  Node& node = nodes_[slot];
  while (!node.waiters.empty() && node.waiters.begin()->first < node.next) {
    const uint32_t waiter = node.waiters.begin()->second;
    node.waiters.erase(node.waiters.begin());
    wait_no_more(waiter);
  }
}

// Nothing can be scheduled, so some edge is false. The earliest waiting event drops the cause that it waits for, or
// takes the earliest identical send as its cause instead. Events that wait for another node's turn are chosen last,
// because turns were counted during recording and are never a guess.
void Scheduler::break_a_cycle() {
  uint32_t first = kNoChannel;
  auto counted = [&](uint32_t slot) {
    const SlotEdge* cause = missing_cause(slot);
    return cause && matches_.edges[cause->index].kind == EdgeKind::turn;
  };
  auto rather = [&](uint32_t a, uint32_t b) {
    return counted(a) != counted(b) ? counted(b) : entry_of(b) > entry_of(a);
  };
  for (uint32_t slot = 0; slot < nodes_.size(); ++slot)
    if (nodes_[slot].waiting && (first == kNoChannel || rather(slot, first))) first = slot;
  FRIDAY_CHECK(first != kNoChannel) << "the schedule is stuck and nobody waits";
  SlotEdge* edge = missing_cause(first);
  FRIDAY_CHECK(edge) << "node " << facts_.nodes[first].id.value << " waits for nothing";
  schedule_.broken_.push_back(matches_.edges[edge->index]);
  std::erase_if(nodes_[edge->from].waiters, [&](const auto& waiter) { return waiter.second == first; });
  uint64_t earliest = matches_.edges[edge->index].earliest;
  if (earliest < edge->from_event && nodes_[edge->from].next > earliest) edge->from_event = earliest;
  else edge->dropped = true;
  wait_no_more(first);
}

void Scheduler::append_turn(uint32_t slot) {
  std::vector<Turn>& turns = schedule_.turns_;
  NodeId id = facts_.nodes[slot].id;
  if (turns.empty() || turns.back().node != id || turns.back().count == UINT32_MAX)
    turns.push_back({id, 0, turn_next_[slot]});
  ++turns.back().count;
  ++turn_next_[slot];
}

// Merges the orders of the hosts into one, by logical time.
void Scheduler::merge_hosts() {
  std::vector<size_t> at(hosts_.size());
  std::vector<uint64_t> next(nodes_.size());
  for (;;) {
    uint32_t best_host = kNoChannel;
    LogicalTime best;
    for (uint32_t host = 0; host < hosts_.size(); ++host) {
      if (at[host] == hosts_[host].order.size()) continue;
      uint32_t slot = hosts_[host].order[at[host]];
      LogicalTime time{schedule_.l_[slot][next[slot]], schedule_.c_[slot][next[slot]], facts_.nodes[slot].id,
                       next[slot]};
      if (best_host == kNoChannel || time < best) {
        best = time;
        best_host = host;
      }
    }
    if (best_host == kNoChannel) return;
    uint32_t slot = hosts_[best_host].order[at[best_host]++];
    ++next[slot];
    append_turn(slot);
  }
}

Schedule Scheduler::run() {
  size_t count = nodes_.size();
  schedule_.l_.resize(count);
  schedule_.c_.resize(count);
  schedule_.real_.resize(count);
  turn_next_.resize(count);
  uint64_t left = 0;
  for (uint32_t slot = 0; slot < count; ++slot) {
    schedule_.nodes_.push_back(facts_.nodes[slot].id);
    schedule_.host_of_.push_back(facts_.nodes[slot].host);
    schedule_.l_[slot].reserve(nodes_[slot].count);
    schedule_.c_[slot].reserve(nodes_[slot].count);
    schedule_.real_[slot].reserve(nodes_[slot].count);
    left += nodes_[slot].count;
    push(slot);
  }
  schedule_.total_ = left;
  schedule_.hosts_ = matches_.hosts;
  while (left > 0) {
    if (heap_.empty()) {
      break_a_cycle();
      continue;
    }
    uint32_t slot = heap_.top().node;
    heap_.pop();
    // While no other node is due, continue with this one and leave the heap alone.
    for (bool due = true; due;) {
      if (SlotEdge* cause = missing_cause(slot)) {
        wait_for(slot, *cause);
        break;
      }
      if (held_back(slot)) {
        host_of(slot).held.push_back(slot);
        break;
      }
      take(slot);
      --left;
      if (nodes_[slot].done()) break;
      due = heap_.empty() || !(entry_of(slot) > heap_.top());
      if (!due) push(slot);
    }
  }
  if (hosts_.size() > 1) merge_hosts();
  schedule_.edges_ = matches_.edges;
  for (const SlotEdge& edge : edges_) schedule_.edges_[edge.index].from_event = edge.from_event;
  std::vector<bool> dropped(schedule_.edges_.size());
  for (const SlotEdge& edge : edges_) dropped[edge.index] = edge.dropped;
  size_t index = 0;
  std::erase_if(schedule_.edges_, [&](const Edge&) { return dropped[index++]; });
  schedule_.traffic_ = matches_.traffic;
  schedule_.build_positions();
  return std::move(schedule_);
}

}  // namespace friday
