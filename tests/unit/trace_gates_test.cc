// The gates of a replay, followed by simulated nodes that come to their events in any order a scheduler may choose:
// what each order promises to keep is kept, and nobody waits for ever.
#include <algorithm>
#include <random>
#include <set>

#include "core/trace/gates.h"
#include "core/trace/matching.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::Script;
using testing::TemporaryRecording;

struct Place {
  size_t slot;
  uint64_t event;
  auto operator<=>(const Place&) const = default;
};

// Nodes that do what pass_gates() of core/shim/replay.cc does, one step at a time.
class Group {
 public:
  // `at_once`: the nodes that end with their last event, without waiting for the gates of their end.
  Group(const std::vector<NodeGates>& gates, const Schedule& order, std::set<NodeId> at_once = {}) : gates_(gates) {
    for (NodeId node : order.nodes()) {
      count_.push_back(order.event_count(node));
      at_once_.push_back(at_once.contains(node));
    }
    event_.resize(count_.size()), gate_.resize(count_.size()), post_.resize(count_.size());
    done_.resize(count_.size()), ended_.resize(count_.size());
  }

  // Runs all nodes to their end in a random order; what was done, the end of a node as one more event behind its last.
  // Shorter than it should be when nobody could go on.
  std::vector<Place> run(std::mt19937& random) {
    std::vector<Place> log;
    for (;;) {
      for (size_t slot = 0; slot < count_.size(); ++slot) publish(slot);
      std::vector<size_t> able;
      for (size_t slot = 0; slot < count_.size(); ++slot)
        if (!ended_[slot] && may_go_on(slot)) able.push_back(slot);
      if (able.empty()) return log;
      const size_t slot = able[random() % able.size()];
      log.push_back({slot, event_[slot]});
      if (event_[slot] != count_[slot] && ++event_[slot] == count_[slot] && at_once_[slot])
        log.push_back({slot, count_[slot]}), ended_[slot] = true, done_[slot] = ~0ull;
      else if (log.back().event == count_[slot]) ended_[slot] = true, done_[slot] = ~0ull;
    }
  }

 private:
  void publish(size_t slot) {
    while (!ended_[slot] && gates_[slot].posts[post_[slot]] <= event_[slot]) ++post_[slot], done_[slot] = event_[slot];
  }
  bool may_go_on(size_t slot) {
    const NodeGates& mine = gates_[slot];
    for (; mine.gates[gate_[slot]].event <= event_[slot]; ++gate_[slot])
      if (const auto& gate = mine.gates[gate_[slot]]; done_[gate.slot] < gate.done) return false;
    return true;
  }

  const std::vector<NodeGates>& gates_;
  std::vector<uint64_t> count_, event_, done_;
  std::vector<size_t> gate_, post_;
  std::vector<bool> ended_, at_once_;
};

// A recording of a few nodes with random messages, turns on shared memory and waits between them.
struct World {
  explicit World(std::mt19937& random) {
    const uint32_t nodes = 2 + random() % 4;
    std::vector<NodeId> ids;
    std::vector<std::vector<uint64_t>> times(nodes);
    uint64_t now = 100;
    std::vector<std::unique_ptr<Script>> scripts;
    for (uint32_t id = 0; id < nodes; ++id)
      scripts.push_back(std::make_unique<Script>(id, 0)), ids.push_back(NodeId{id});
    for (size_t n = 10 + random() % 60; n-- > 0; now += 100) {
      const size_t slot = random() % nodes;
      scripts[slot]->plain(now);
      times[slot].push_back(now);
    }
    for (uint32_t id = 0; id < nodes; ++id) {
      if (times[id].empty()) scripts[id]->plain(now), times[id].push_back(now), now += 100;
      recording.save(scripts[id]->writer);
    }
    auto opened = Recording::open(recording.path());
    auto facts = FactSet::gather(*opened, ids);
    Matches matches = match(*facts);
    for (size_t n = random() % 20; n-- > 0;) {
      const size_t from = random() % nodes, to = random() % nodes;
      const uint64_t a = random() % times[from].size(), b = random() % times[to].size();
      if (from == to || times[from][a] >= times[to][b]) continue;
      const EdgeKind kind = random() % 3 == 0 ? EdgeKind::turn : EdgeKind::stream;
      matches.edges.push_back({NodeId{static_cast<uint32_t>(from)}, NodeId{static_cast<uint32_t>(to)}, a, b, 0, a, kind,
                               0, MatchedBy::address});
    }
    std::ranges::sort(matches.edges, {}, [](const Edge& e) { return std::pair(e.to, e.to_event); });
    schedule = schedule_of(*facts, matches);
    host_edges = host_order(*facts);
    // Some nodes end long after their last event, when another one ends them.
    const uint64_t position = schedule.event_count();
    for (NodeId id : schedule.nodes()) {
      const uint64_t last = schedule.position_of(id, {schedule.event_count(id) - 1}) + 1;
      ends[id] = {last + (random() % 2 ? 0 : random() % (position - last + 1)), {}};
      if (ends[id].position == last && random() % 2) at_once.insert(id);
    }
  }

  size_t slot(NodeId id) const { return id.value; }

  TemporaryRecording recording;
  Schedule schedule;
  std::vector<HostEdge> host_edges;
  std::map<NodeId, EndPlace> ends;
  std::set<NodeId> at_once;
};

bool is_before(const std::vector<Place>& log, Place first, Place second) {
  return std::ranges::find(log, first) < std::ranges::find(log, second);
}

size_t steps_of(const World& world) { return world.schedule.event_count() + world.schedule.nodes().size(); }

constexpr unsigned kWorlds = 60, kRuns = 5;

TEST(Gates, InClockOrderTheGroupDoesWhatWasRecordedEventForEvent) {
  for (unsigned seed = 0; seed < kWorlds; ++seed) {
    std::mt19937 random(seed);
    World world(random);
    const auto gates = make_gates(world.schedule, SyncMode::clock, world.ends);
    for (unsigned run = 0; run < kRuns; ++run) {
      const auto log = Group(gates, world.schedule, world.at_once).run(random);
      ASSERT_EQ(log.size(), steps_of(world)) << "seed " << seed << ": the group stands still";
      uint64_t position = 0;
      for (const Place& place : log) {
        const NodeId id = world.schedule.nodes()[place.slot];
        if (place.event == world.schedule.event_count(id)) {
          EXPECT_EQ(position, world.ends[id].position) << "seed " << seed << ": the end of node " << id.value;
          continue;
        }
        ASSERT_EQ(world.schedule.position_of(id, {place.event}), position++) << "seed " << seed;
      }
    }
  }
}

TEST(Gates, InCausalOrderEachEdgeIsKept) {
  for (unsigned seed = 0; seed < kWorlds; ++seed) {
    std::mt19937 random(seed);
    World world(random);
    const auto gates = make_gates(world.schedule, SyncMode::causal, world.ends, world.host_edges);
    for (unsigned run = 0; run < kRuns; ++run) {
      const auto log = Group(gates, world.schedule).run(random);
      ASSERT_EQ(log.size(), steps_of(world)) << "seed " << seed << ": the group stands still";
      for (const Edge& edge : world.schedule.edges())
        ASSERT_TRUE(is_before(log, {edge.from.value, edge.from_event}, {edge.to.value, edge.to_event}))
            << "seed " << seed << ": " << name_of(edge.kind);
      for (const HostEdge& edge : world.host_edges)
        ASSERT_TRUE(is_before(log, {edge.from, edge.from_event}, {edge.to, edge.to_event})) << "seed " << seed;
    }
  }
}

TEST(Gates, InFreeOrderOnlyTurnsOnSharedMemoryAreKept) {
  size_t other_orders = 0;
  for (unsigned seed = 0; seed < kWorlds; ++seed) {
    std::mt19937 random(seed);
    World world(random);
    const auto gates = make_gates(world.schedule, SyncMode::free, world.ends);
    for (unsigned run = 0; run < kRuns; ++run) {
      const auto log = Group(gates, world.schedule).run(random);
      ASSERT_EQ(log.size(), steps_of(world)) << "seed " << seed << ": the group stands still";
      for (const Edge& edge : world.schedule.edges()) {
        const bool kept = is_before(log, {edge.from.value, edge.from_event}, {edge.to.value, edge.to_event});
        if (edge.kind == EdgeKind::turn) ASSERT_TRUE(kept) << "seed " << seed;
        else other_orders += !kept;
      }
    }
  }
  EXPECT_GT(other_orders, 0u) << "messages are not waited for in this order";
}

TEST(Gates, WhoWaitsForAChildWaitsForItsEnd) {
  Script parent(0, 0), child(1, 0);
  parent.plain(100), parent.plain(500), child.plain(200), child.plain(300);
  TemporaryRecording recording;
  for (Script* script : {&parent, &child}) recording.save(script->writer);
  auto opened = Recording::open(recording.path());
  auto facts = FactSet::gather(*opened, std::vector<NodeId>{NodeId{0}, NodeId{1}});
  Matches matches = match(*facts);
  matches.edges = {{NodeId{1}, NodeId{0}, 1, 1, 0, 1, EdgeKind::wait, 0, MatchedBy::object}};
  const Schedule schedule = schedule_of(*facts, matches);
  const auto gates = make_gates(schedule, SyncMode::causal, {});
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto log = Group(gates, schedule).run(random);
    ASSERT_EQ(log.size(), 6u);
    EXPECT_TRUE(is_before(log, {1, 2} /* its end */, {0, 1}));
  }
}

TEST(Gates, NamesOfOrdersAreReadBack) {
  for (SyncMode mode : {SyncMode::clock, SyncMode::causal, SyncMode::free})
    EXPECT_EQ(sync_mode_named(name_of(mode)), mode);
  EXPECT_FALSE(sync_mode_named("strict"));
}

}  // namespace
}  // namespace friday
