#include "core/cut/flow.h"

#include <algorithm>

namespace friday::cut {
namespace {

// Arcs of both directions stand by the node that they leave; `mates_` leads to the opposite one.
class Network {
 public:
  Network(uint32_t nodes, std::span<const Arc> arcs, std::span<const uint32_t> sources, std::span<const uint32_t> sinks)
      : source_(nodes), sink_(nodes + 1) {
    const auto for_each_arc = [&](auto f) {
      for (const Arc& arc : arcs) f(arc.from, arc.to, arc.capacity);
      for (const uint32_t each : sources) f(source_, each, kInfinite);
      for (const uint32_t each : sinks) f(each, sink_, kInfinite);
    };
    first_.assign(size_t{nodes} + 3, 0);
    for_each_arc([&](uint32_t from, uint32_t to, int64_t) { first_[from + 1]++, first_[to + 1]++; });
    for (size_t i = 1; i < first_.size(); i++) first_[i] += first_[i - 1];
    const size_t count = first_.back();
    heads_.resize(count), mates_.resize(count), left_.resize(count);
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for_each_arc([&](uint32_t from, uint32_t to, int64_t capacity) {
      const uint32_t there = next[from]++, back = next[to]++;
      heads_[there] = to, heads_[back] = from;
      mates_[there] = back, mates_[back] = there;
      left_[there] = capacity, left_[back] = 0;
    });
    distances_.resize(size_t{nodes} + 2);
  }

  // False if there is no largest flow, since a path has infinite arcs only.
  bool run(MinimumCut& cut) {
    while (measure()) {
      cut.phases++;
      current_.assign(first_.begin(), first_.end() - 1);
      if (!saturate(cut.capacity)) return false;
    }
    // The last search went backwards from the sink, so it has found all nodes that can still reach it.
    cut.inside.resize(source_);
    for (uint32_t i = 0; i < source_; i++) cut.inside[i] = distances_[i] != kFar;
    return true;
  }

 private:
  static constexpr uint32_t kFar = ~uint32_t{0};

  // Distances to the sink along arcs that have capacity left. False if the source has none.
  bool measure() {
    std::ranges::fill(distances_, kFar);
    queue_.assign(1, sink_);
    distances_[sink_] = 0;
    for (size_t i = 0; i < queue_.size(); i++) {
      const uint32_t node = queue_[i];
      for (uint32_t arc = first_[node]; arc < first_[node + 1]; arc++) {
        const uint32_t from = heads_[arc];
        if (distances_[from] != kFar || left_[mates_[arc]] == 0) continue;
        distances_[from] = distances_[node] + 1;
        queue_.push_back(from);
      }
    }
    return distances_[source_] != kFar;
  }

  // Sends flow along shortest paths until none is left. A path is kept up to the arc that was saturated.
  bool saturate(int64_t& flow) {
    path_.clear();
    uint32_t node = source_;
    while (true) {
      if (node == sink_) {
        const int64_t sent = augment(node);
        flow += sent;
        if (flow >= kInfinite) return false;
        continue;
      }
      uint32_t& arc = current_[node];
      while (arc < first_[node + 1] && (left_[arc] == 0 || distances_[heads_[arc]] + 1 != distances_[node])) arc++;
      if (arc < first_[node + 1]) {
        path_.push_back(arc);
        node = heads_[arc];
      } else {
        if (node == source_) return true;
        node = heads_[mates_[path_.back()]];
        path_.pop_back();
        current_[node]++;
      }
    }
  }

  // Returns what was sent, and sets `node` to where the first saturated arc begins.
  int64_t augment(uint32_t& node) {
    int64_t most = kInfinite;
    for (const uint32_t arc : path_) most = std::min(most, left_[arc]);
    size_t saturated = path_.size();
    for (size_t i = path_.size(); i-- > 0;) {
      const uint32_t arc = path_[i];
      left_[arc] -= most;
      left_[mates_[arc]] += most;
      if (left_[arc] == 0) saturated = i;
    }
    node = heads_[mates_[path_[saturated]]];
    path_.resize(saturated);
    return most;
  }

  const uint32_t source_, sink_;
  std::vector<uint32_t> first_;  // arc by node
  std::vector<uint32_t> heads_, mates_;
  std::vector<int64_t> left_;  // capacity
  std::vector<uint32_t> distances_, current_, queue_, path_;
};

}  // namespace

Result<MinimumCut> minimum_cut(uint32_t nodes, std::span<const Arc> arcs, std::span<const uint32_t> sources,
                               std::span<const uint32_t> sinks) {
  if ((arcs.size() + sources.size() + sinks.size()) >= uint64_t{1} << 31 || nodes >= ~uint32_t{0} - 2)
    return fail(ErrorCode::unsupported, "a network of {} nodes and {} arcs is too large to be cut", nodes, arcs.size());
  int64_t sum = 0;
  for (const Arc& arc : arcs) {
    const bool finite = arc.capacity != kInfinite;
    if (arc.from >= nodes || arc.to >= nodes || arc.capacity <= 0 || (finite && arc.capacity >= kInfinite - sum))
      return fail(ErrorCode::usage, "an arc from {} to {} of capacity {} cannot stand in a network of {} nodes",
                  arc.from, arc.to, arc.capacity, nodes);
    if (finite) sum += arc.capacity;
  }
  for (const auto list : {sources, sinks})
    for (const uint32_t each : list)
      if (each >= nodes) return fail(ErrorCode::usage, "a network of {} nodes has no node {}", nodes, each);
  MinimumCut cut;
  if (!Network(nodes, arcs, sources, sinks).run(cut))
    return fail(ErrorCode::unsupported,
                "no cut is possible: a source of non-determinism is part of what is to be replayed");
  return cut;
}

}  // namespace friday::cut
