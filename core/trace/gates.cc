#include "core/trace/gates.h"

#include <algorithm>

namespace friday {
namespace {

constexpr uint64_t kEnd = ~0ull;

size_t slot_of(const Schedule& order, NodeId node) {
  const auto& nodes = order.nodes();
  return static_cast<size_t>(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin());
}

void finish_lists(std::vector<NodeGates>& all) {
  for (auto& node : all) {
    std::stable_sort(node.gates.begin(), node.gates.end(),
                     [](const auto& a, const auto& b) { return a.event < b.event; });
    std::sort(node.posts.begin(), node.posts.end());
    node.posts.erase(std::unique(node.posts.begin(), node.posts.end()), node.posts.end());
    node.gates.push_back({kEnd, 0, 0, 0});
    node.posts.push_back(kEnd);
  }
}

struct End {
  uint64_t position;
  bool waits;  // false: it comes with the node's last event (a fault), so no other end may come between the two
  NodeId node;
  auto operator<=>(const End&) const = default;
};

std::vector<End> ends_in_order(const Schedule& order, const std::map<NodeId, EndPlace>& ends) {
  std::vector<End> sorted;
  for (const auto& [node, place] : ends) {
    const uint64_t behind_last = order.position_of(node, {order.event_count(node) - 1}) + 1;
    sorted.push_back({place.position, place.position != behind_last, node});
  }
  std::ranges::sort(sorted);
  return sorted;
}

// The turns of the order with the end of each node as one more event of it, the one behind its last.
std::vector<Turn> turns_with_ends(const Schedule& order, const std::map<NodeId, EndPlace>& places) {
  const std::vector<End> ends = ends_in_order(order, places);
  std::vector<Turn> turns;
  auto append = [&](NodeId node, uint64_t first, uint64_t count) {
    if (count == 0) return;
    const bool goes_on = !turns.empty() && turns.back().node == node && turns.back().count <= UINT32_MAX - count;
    if (goes_on) turns.back().count += static_cast<uint32_t>(count);
    else turns.push_back({node, static_cast<uint32_t>(count), first});
  };
  auto end = ends.begin();
  uint64_t position = 0;
  for (const Turn& turn : order.turns()) {
    uint64_t done = 0;
    for (; end != ends.end() && end->position < position + turn.count; ++end) {
      const uint64_t before = end->position - position;
      append(turn.node, turn.first + done, before - done);
      append(end->node, order.event_count(end->node), 1);
      done = before;
    }
    append(turn.node, turn.first + done, turn.count - done);
    position += turn.count;
  }
  for (; end != ends.end(); ++end) append(end->node, order.event_count(end->node), 1);
  return turns;
}

}  // namespace

const char* name_of(SyncMode mode) {
  switch (mode) {
    case SyncMode::clock: return "clock";
    case SyncMode::causal: return "causal";
    case SyncMode::free: return "free";
  }
  return "";
}

std::optional<SyncMode> sync_mode_named(std::string_view name) {
  for (SyncMode mode : {SyncMode::clock, SyncMode::causal, SyncMode::free})
    if (name == name_of(mode)) return mode;
  return std::nullopt;
}

std::vector<NodeGates> make_gates(const Schedule& order, SyncMode mode, const std::map<NodeId, EndPlace>& ends,
                                  std::span<const HostEdge> host_edges) {
  std::vector<NodeGates> all(order.nodes().size());
  auto wait = [&](size_t waiter, uint64_t event, size_t other, uint64_t done) {
    if (waiter == other) return;
    all[waiter].gates.push_back({event, done, static_cast<uint32_t>(other), 0});
    all[other].posts.push_back(done);
  };
  if (mode == SyncMode::clock) {
    // One baton: each turn begins when the turn before it has come to the entry of its node's next event.
    const std::vector<Turn> turns = turns_with_ends(order, ends);
    for (size_t i = 1; i < turns.size(); i++)
      wait(slot_of(order, turns[i].node), turns[i].first, slot_of(order, turns[i - 1].node),
           turns[i - 1].first + turns[i - 1].count);
  } else {
    // Of a process that its parent waited for the end is meant, which finish() tells.
    const auto behind = [&](const Edge& edge) {
      return edge.kind == EdgeKind::wait ? order.event_count(edge.from) + 1 : edge.from_event + 1;
    };
    // Turns on shared memory are kept in `free` order too: what a node reads there is what another one wrote.
    for (const auto& edge : order.edges())
      if (mode == SyncMode::causal || edge.kind == EdgeKind::turn)
        wait(slot_of(order, edge.to), edge.to_event, slot_of(order, edge.from), behind(edge));
    if (mode == SyncMode::causal)
      for (const HostEdge& edge : host_edges) wait(edge.to, edge.to_event, edge.from, edge.from_event + 1);
  }
  finish_lists(all);
  return all;
}

}  // namespace friday
