// Synthetic recordings that are matched and scheduled, and the promises that every schedule keeps.
#pragma once

#include <time.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/trace/facts.h"
#include "core/trace/logical_time.h"
#include "tests/unit/growth.h"
#include "tests/unit/trace_support.h"

namespace friday::testing {

// A recording of scripts, scheduled; and the promises that every schedule keeps.
class World {
 public:
  explicit World(std::vector<Script*> scripts) {
    for (Script* script : scripts) recording.save(script->writer);
    opened = std::make_unique<Recording>(*Recording::open(recording.path()));
    auto computed = Schedule::compute(*opened);
    EXPECT_TRUE(computed) << describe(computed.error());
    schedule = *std::move(computed);
    check_promises();
  }

  uint64_t position(uint32_t node, uint64_t event) const {
    return schedule.position_of(NodeId{node}, EventIndex{event});
  }

  // Edges into (node, event) of a kind.
  std::vector<Edge> into(uint32_t node, uint64_t event) const {
    std::vector<Edge> found;
    for (const Edge& edge : schedule.edges())
      if (edge.to.value == node && edge.to_event == event) found.push_back(edge);
    return found;
  }
  bool has(EdgeKind kind, uint32_t from, uint64_t from_event, uint32_t to, uint64_t to_event) const {
    for (const Edge& edge : into(to, to_event))
      if (edge.kind == kind && edge.from.value == from && edge.from_event == from_event) return true;
    return false;
  }
  size_t count(EdgeKind kind) const {
    size_t found = 0;
    for (const Edge& edge : schedule.edges()) found += edge.kind == kind;
    return found;
  }

  TemporaryRecording recording;
  std::unique_ptr<Recording> opened;
  Schedule schedule;

 private:
  void check_promises() {
    EXPECT_TRUE(schedule.broken().empty());
    // Each event once, in its node's order, times rising along the whole order.
    std::map<NodeId, uint64_t> next;
    LogicalTime last{INT64_MIN, 0, {}, 0};
    uint64_t position = 0;
    for (const Turn& turn : schedule.turns())
      for (uint64_t event = turn.first; event < turn.first + turn.count; ++event, ++position) {
        ASSERT_EQ(next[turn.node]++, event);
        LogicalTime time = schedule.time_of(turn.node, EventIndex{event});
        ASSERT_LT(last, time);
        last = time;
        ASSERT_EQ(schedule.position_of(turn.node, EventIndex{event}), position);
        ASSERT_EQ(schedule.at_position(position), (Mark{turn.node, EventIndex{event}}));
        ASSERT_EQ(schedule.position_at(time), position);
      }
    for (NodeId node : schedule.nodes()) ASSERT_EQ(next[node], schedule.event_count(node));
    ASSERT_EQ(position, schedule.event_count());
    for (const Edge& edge : schedule.edges())
      EXPECT_LT(schedule.position_of(edge.from, EventIndex{edge.from_event}),
                schedule.position_of(edge.to, EventIndex{edge.to_event}))
          << name_of(edge.kind);
    check_host_order();
  }

  // On one host: what had returned before another was entered comes first.
  void check_host_order() {
    std::vector<NodeId> all = schedule.nodes();
    auto facts = FactSet::gather(*opened, all);
    ASSERT_TRUE(facts);
    std::map<uint32_t, uint64_t> entered;  // latest entry so far, by host
    std::map<NodeId, size_t> slots;
    for (size_t slot = 0; slot < all.size(); ++slot) slots[all[slot]] = slot;
    for (auto turn = schedule.turns().begin(); turn != schedule.turns().end(); ++turn) {
      const NodeFacts& node = facts->nodes[slots[turn->node]];
      for (uint64_t event = turn->first; event < turn->first + turn->count; ++event) {
        ASSERT_GE(node.times[event].back, entered[node.host]) << "node " << node.id.value << " event " << event;
        entered[node.host] = std::max<uint64_t>(entered[node.host], node.times[event].entry);
      }
    }
  }
};

// A connected pair of stream sockets, both ends described before their first event.
inline void connect_streams(Script& client, Script& server, const char* client_address = "127.0.0.1",
                            const char* server_address = "127.0.0.1", uint64_t number = 1, uint16_t port = 40000) {
  client.channel(number, format::kChannelStream, 5, inet(client_address, port), inet(server_address, 80));
  server.channel(number, format::kChannelStream, 5, inet(server_address, 80), inet(client_address, port));
}

}  // namespace friday::testing
