#include "core/trace/logical_time.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/log.h"
#include "core/trace/cache.h"
#include "core/trace/scheduler.h"

namespace friday {

namespace {

constexpr char kCacheName[] = "schedule";

std::vector<NodeId> usable_nodes(const Recording& recording) {
  std::vector<NodeId> nodes;
  for (const NodeInfo& node : recording.nodes())
    if (!node.problem) nodes.push_back(node.id);
  return nodes;
}

std::vector<NodeId> sorted(std::span<const NodeId> nodes) {
  std::vector<NodeId> list(nodes.begin(), nodes.end());
  std::ranges::sort(list);
  list.erase(std::ranges::unique(list).begin(), list.end());
  return list;
}

}  // namespace

Result<Schedule> Schedule::compute(const Recording& recording, std::span<const NodeId> nodes) {
  std::vector<NodeId> chosen = nodes.empty() ? usable_nodes(recording) : sorted(nodes);
  FRIDAY_TRY(facts, FactSet::gather(recording, chosen));
  Matches matches = match(facts);
  return schedule_of(facts, matches);
}

Schedule schedule_of(const FactSet& facts, const Matches& matches) { return Scheduler(facts, matches).run(); }

Result<Schedule> Schedule::load_or_compute(const Recording& recording, std::span<const NodeId> nodes) {
  std::vector<NodeId> all = usable_nodes(recording);
  uint64_t print = fingerprint(recording, all);
  Schedule schedule;
  const bool cached = schedule.load(recording, print);
  FRIDAY_LOG(trace, info, "the order of {} nodes: {}", all.size(), cached ? "from the cache" : "to be computed");
  if (!cached) {
    auto computed = compute(recording);
    if (!computed) {
      // Damage in a node that was not asked for is no error.
      if (nodes.empty() || std::ranges::find(nodes, NodeId{computed.error().node.value_or(~0u)}) != nodes.end())
        return computed;
      return compute(recording, nodes);
    }
    schedule = *std::move(computed);
    schedule.store(recording, print);
  }
  for (NodeId node : nodes)
    if (std::ranges::find(schedule.nodes_, node) == schedule.nodes_.end())
      return compute(recording, nodes);  // computes without the cache, so that its error names the problem
  return nodes.empty() ? std::move(schedule) : schedule.restricted_to(nodes);
}

Schedule Schedule::restricted_to(std::span<const NodeId> nodes) const {
  Schedule part;
  part.nodes_ = sorted(nodes);
  auto wanted = [&](NodeId node) { return std::ranges::binary_search(part.nodes_, node); };
  for (NodeId node : part.nodes_) {
    size_t slot = slot_of(node);
    part.l_.push_back(l_[slot]);
    part.c_.push_back(c_[slot]);
    part.real_.push_back(real_[slot]);
    part.traffic_.push_back(traffic_[slot]);
    part.host_of_.push_back(host_of_[slot]);
  }
  part.hosts_ = hosts_;
  part.origin_ = origin_;
  for (const Turn& turn : turns_) {
    if (!wanted(turn.node)) continue;
    part.total_ += turn.count;
    if (!part.turns_.empty() && part.turns_.back().node == turn.node &&
        turn.count <= UINT32_MAX - part.turns_.back().count)
      part.turns_.back().count += turn.count;
    else part.turns_.push_back(turn);
  }
  auto between = [&](const Edge& edge) { return wanted(edge.from) && wanted(edge.to); };
  std::ranges::copy_if(edges_, std::back_inserter(part.edges_), between);
  std::ranges::copy_if(broken_, std::back_inserter(part.broken_), between);
  part.build_positions();
  return part;
}

void Schedule::build_positions() {
  node_turns_.assign(nodes_.size(), {});
  turn_positions_.clear();
  uint64_t position = 0;
  for (uint32_t n = 0; n < turns_.size(); ++n) {
    turn_positions_.push_back(position);
    position += turns_[n].count;
    node_turns_[slot_of(turns_[n].node)].push_back(n);
  }
  if (!origin_ && !turns_.empty()) origin_ = time_of(turns_.front().node, {turns_.front().first}).l;
}

size_t Schedule::slot_of(NodeId node) const {
  auto found = std::ranges::lower_bound(nodes_, node);
  FRIDAY_CHECK(found != nodes_.end() && *found == node) << "node " << node.value << " is not in the schedule";
  return static_cast<size_t>(found - nodes_.begin());
}

uint64_t Schedule::event_count(NodeId node) const { return l_[slot_of(node)].size(); }

LogicalTime Schedule::time_of(NodeId node, EventIndex event) const {
  size_t slot = slot_of(node);
  FRIDAY_CHECK(event.value < l_[slot].size()) << "event " << event.value << " of node " << node.value;
  return {l_[slot][event.value], c_[slot][event.value], node, event.value};
}

int64_t Schedule::realtime_ns(NodeId node, EventIndex event) const {
  size_t slot = slot_of(node);
  FRIDAY_CHECK(event.value < real_[slot].size()) << "event " << event.value << " of node " << node.value;
  return real_[slot][event.value];
}

uint64_t Schedule::position_of(NodeId node, EventIndex event) const {
  FRIDAY_CHECK(event.value < event_count(node)) << "event " << event.value << " of node " << node.value;
  const std::vector<uint32_t>& mine = node_turns_[slot_of(node)];
  auto after = std::ranges::upper_bound(mine, event.value, {}, [&](uint32_t turn) { return turns_[turn].first; });
  uint32_t turn = *std::prev(after);
  return turn_positions_[turn] + (event.value - turns_[turn].first);
}

Mark Schedule::at_position(uint64_t position) const {
  FRIDAY_CHECK(position < total_) << "position " << position << " of " << total_;
  auto after = std::ranges::upper_bound(turn_positions_, position);
  auto turn = static_cast<size_t>(after - turn_positions_.begin()) - 1;
  return {turns_[turn].node, EventIndex{turns_[turn].first + (position - turn_positions_[turn])}};
}

uint64_t Schedule::events_before(NodeId node, uint64_t position) const {
  const std::vector<uint32_t>& mine = node_turns_[slot_of(node)];
  auto after = std::ranges::lower_bound(mine, position, {}, [&](uint32_t turn) { return turn_positions_[turn]; });
  if (after == mine.begin()) return 0;
  uint32_t turn = *std::prev(after);
  return turns_[turn].first + std::min<uint64_t>(turns_[turn].count, position - turn_positions_[turn]);
}

uint64_t Schedule::position_at(const LogicalTime& time) const {
  uint64_t low = 0, high = total_;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    Mark mark = at_position(middle);
    if (time_of(mark.node, mark.event) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

uint64_t Schedule::position_at(double seconds) const {
  const double ns = seconds * 1e9 - 500;
  if (!(ns <= 9e18 - static_cast<double>(origin()))) return total_;
  return position_at(LogicalTime{origin() + static_cast<int64_t>(ns), 0, {}, 0});
}

std::map<std::pair<NodeId, NodeId>, PairTraffic> Schedule::traffic_between() const {
  std::map<std::pair<NodeId, NodeId>, PairTraffic> pairs;
  for (const Edge& edge : edges_) {
    if (!is_message(edge)) continue;
    PairTraffic& pair = pairs[{edge.from, edge.to}];
    ++pair.messages;
    pair.bytes += edge.bytes;
    pair.duplicates += edge.duplicate;
    ++pair.by[static_cast<size_t>(edge.by)];
  }
  return pairs;
}

const NodeTraffic& Schedule::traffic_of(NodeId node) const { return traffic_[slot_of(node)]; }

void Schedule::store(const Recording& recording, uint64_t fingerprint) const {
  CacheWriter writer;
  writer.add(nodes_);
  writer.add(turns_);
  writer.add(edges_);
  writer.add(broken_);
  writer.add(traffic_);
  writer.add(hosts_);
  writer.add(host_of_);
  for (size_t slot = 0; slot < nodes_.size(); ++slot) {
    writer.add(l_[slot]);
    writer.add(c_[slot]);
    writer.add(real_[slot]);
  }
  (void)writer.write(recording, kCacheName, fingerprint);  // fails for a read-only recording, which then has no cache
}

bool Schedule::load(const Recording& recording, uint64_t fingerprint) {
  auto cache = CacheReader::open(recording, kCacheName, fingerprint);
  if (!cache) return false;
  if (!cache->take(nodes_) || !cache->take(turns_) || !cache->take(edges_) || !cache->take(broken_) ||
      !cache->take(traffic_) || !cache->take(hosts_) || !cache->take(host_of_))
    return false;
  size_t count = nodes_.size();
  l_.resize(count);
  c_.resize(count);
  real_.resize(count);
  for (size_t slot = 0; slot < count; ++slot) {
    if (!cache->take(l_[slot]) || !cache->take(c_[slot]) || !cache->take(real_[slot])) return false;
    total_ += l_[slot].size();
  }
  if (nodes_ != usable_nodes(recording) || !is_consistent()) {
    *this = Schedule();
    return false;
  }
  build_positions();
  return true;
}

// Whether arrays that were read from a cache file agree with each other.
bool Schedule::is_consistent() const {
  std::vector<uint64_t> next(nodes_.size());
  for (const Turn& turn : turns_) {
    auto node = std::ranges::lower_bound(nodes_, turn.node);
    if (node == nodes_.end() || *node != turn.node || turn.count == 0) return false;
    uint64_t& expected = next[static_cast<size_t>(node - nodes_.begin())];
    if (turn.first != expected) return false;
    expected += turn.count;
  }
  for (size_t slot = 0; slot < nodes_.size(); ++slot)
    if (l_[slot].size() != next[slot] || c_[slot].size() != next[slot] || real_[slot].size() != next[slot])
      return false;
  auto within = [&](NodeId node, uint64_t event) {
    auto found = std::ranges::lower_bound(nodes_, node);
    return found != nodes_.end() && *found == node && event < next[static_cast<size_t>(found - nodes_.begin())];
  };
  if (traffic_.size() != nodes_.size() || host_of_.size() != nodes_.size() || !std::ranges::is_sorted(nodes_))
    return false;
  if (!std::ranges::all_of(host_of_, [&](uint32_t host) { return host < hosts_.size(); })) return false;
  if (!std::ranges::all_of(
          hosts_, [&](const HostAlignment& host) { return host.by < hosts_.size() && host.group < hosts_.size(); }))
    return false;
  return std::ranges::all_of(edges_, [&](const Edge& edge) {
    return within(edge.from, edge.from_event) && within(edge.to, edge.to_event) &&
           static_cast<size_t>(edge.by) < kMatchedByCount;
  });
}

}  // namespace friday
