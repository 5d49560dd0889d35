#include "core/cut/inclusion.h"

#include <algorithm>

namespace friday::cut {
namespace {

// A number that looks random, and is the same in each run (splitmix64).
uint64_t scrambled(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number ^ number >> 31;
}

}  // namespace

bool EdgeSet::insert(uint32_t from, uint32_t to) {
  if (2 * used_ >= slots_.size()) grow();
  const uint64_t edge = uint64_t{from} << 32 | to;
  const size_t mask = slots_.size() - 1;
  for (size_t at = slot_of(edge, mask);; at = (at + 1) & mask) {
    if (slots_[at] == edge) return false;
    if (slots_[at] != kFree) continue;
    slots_[at] = edge;
    used_++;
    return true;
  }
}

void EdgeSet::grow() {
  std::vector<uint64_t> old(slots_.size() * 2, kFree);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (uint64_t edge : old) {
    if (edge == kFree) continue;
    size_t at = slot_of(edge, mask);
    while (slots_[at] != kFree) at = (at + 1) & mask;
    slots_[at] = edge;
  }
}

InclusionSolver::Node InclusionSolver::add_node() {
  nodes_.emplace_back();
  parents_.push_back(static_cast<Node>(parents_.size()));
  return parents_.back();
}

uint32_t InclusionSolver::add_object(Node content) {
  const auto object = static_cast<uint32_t>(contents_.size());
  contents_.push_back(content);
  randoms_.push_back({scrambled(uint64_t{object} * 2), scrambled(uint64_t{object} * 2 + 1)});
  return object;
}

InclusionSolver::Node InclusionSolver::find(Node p) {
  while (parents_[p] != p) p = parents_[p] = parents_[parents_[p]];
  return p;
}

InclusionSolver::Use& InclusionSolver::use_of(Node p) {
  uint32_t& use = nodes_[p].use;
  if (use == kNoUse) {
    use = static_cast<uint32_t>(uses_.size());
    uses_.emplace_back();
  }
  return uses_[use];
}

// All objects of the pointer are to be processed (again): it is used in a further way.
void InclusionSolver::use_anew(Node p, Use& use) {
  use.pending = nodes_[p].points;
  use.load_join = use.store_join = kNoNode;
  use.seen = {};
  use.seen_count = 0;
  if (!use.pending.empty()) with_pending_.push_back(p);
}

void InclusionSolver::point(Node p, uint32_t object) {
  NodeState& state = nodes_[find(p)];
  if (!state.points.contains(object)) state.fresh.insert(object);
}

void InclusionSolver::copy(Node from, Node to) {
  from = find(from), to = find(to);
  if (from != to && edges_.insert(from, to)) nodes_[from].copies.push_back(to);
}

void InclusionSolver::load(Node p, Node to) {
  p = find(p);
  Use& use = use_of(p);
  if (use.loaded == kNoNode) {
    use.loaded = add_node();
    use_anew(p, use);
  }
  copy(use.loaded, to);
}

void InclusionSolver::store(Node p, Node from) {
  p = find(p);
  Use& use = use_of(p);
  if (use.stored == kNoNode) {
    use.stored = add_node();
    use_anew(p, use);
  }
  copy(from, use.stored);
}

void InclusionSolver::watch(Node p, uint32_t watch) {
  p = find(p);
  Use& use = use_of(p);
  use.watches.push_back(watch);
  use_anew(p, use);
}

void InclusionSolver::solve(const Watcher& watcher) {
  do {
    waves_++;
    collapse_cycles();
    hand_on();
  } while (process_uses(watcher) || !is_settled());
}

// Merging uses adds copies that the order of the wave did not know, so something may be left.
bool InclusionSolver::is_settled() const {
  return std::ranges::all_of(
      order_, [&](Node p) { return nodes_[p].fresh.empty() && nodes_[p].told == nodes_[p].copies.size(); });
}

// Puts representatives in place of merged nodes, and drops copies that are there twice.
void InclusionSolver::tidy_copies(Node p) {
  NodeState& state = nodes_[p];
  mark_[p] = p;
  size_t kept = 0;
  uint32_t told = 0;
  for (size_t i = 0; i < state.copies.size(); i++) {
    const Node to = find(state.copies[i]);
    if (std::exchange(mark_[to], p) == p) continue;
    state.copies[kept++] = to;
    if (i < state.told) told++;
  }
  state.copies.resize(kept);
  state.told = told;
}

// Merges each cycle of copies into one node, and brings the nodes into topological order: Tarjan's strongly connected
// components ("Depth-first search and linear graph algorithms", 1972), without recursion.
void InclusionSolver::collapse_cycles() {
  constexpr uint32_t kDone = ~uint32_t{0};
  struct Visit {
    Node node;
    size_t next;  // of its copies
  };
  const size_t count = nodes_.size();
  mark_.assign(count, kNoNode);
  std::vector<uint32_t> low(count, 0);  // 0: not visited
  std::vector<Node> open;
  std::vector<Visit> path;
  std::vector<std::vector<Node>> cycles;
  uint32_t time = 0;
  order_.clear();
  const auto enter = [&](Node p) {
    tidy_copies(p);
    low[p] = ++time;
    open.push_back(p);
    path.push_back({p, 0});
  };
  std::vector<uint32_t> entered(count, 0);
  for (Node root = 0; root < count; root++) {
    if (parents_[root] != root || low[root] != 0) continue;
    enter(root);
    entered[root] = time;
    while (!path.empty()) {
      const Node p = path.back().node;
      if (path.back().next < nodes_[p].copies.size()) {
        const Node to = nodes_[p].copies[path.back().next++];
        if (low[to] == 0) {
          enter(to);
          entered[to] = time;
        } else if (low[to] != kDone) {
          low[p] = std::min(low[p], low[to]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().node] = std::min(low[path.back().node], low[p]);
      if (low[p] != entered[p]) continue;
      const auto first = std::ranges::find(open.rbegin(), open.rend(), p).base() - 1;
      if (open.end() - first > 1) cycles.emplace_back(first, open.end());
      for (auto each = first; each != open.end(); ++each) low[*each] = kDone;
      open.erase(first, open.end());
      order_.push_back(p);
    }
  }
  for (const std::vector<Node>& cycle : cycles) merge(cycle);
  for (Node& each : order_) each = find(each);
  std::ranges::reverse(order_);
}

void InclusionSolver::merge(const std::vector<Node>& cycle) {
  const Node into = *std::ranges::max_element(cycle, {}, [&](Node p) { return nodes_[p].points.bytes(); });
  const uint32_t use = merge_uses(cycle);
  NodeState& state = nodes_[into];
  for (Node p : cycle) {
    if (p == into) continue;
    NodeState other = std::exchange(nodes_[p], {});
    parents_[p] = into;
    state.points.add(other.points);
    state.fresh.add(other.fresh);
    state.copies.insert(state.copies.end(), other.copies.begin(), other.copies.end());
  }
  const SparseSet fresh = state.fresh.take();
  state.fresh.add_unknown(fresh, state.points);
  state.told = 0;
  state.use = use;
  if (use == kNoUse) return;
  Use& merged = uses_[use];
  const SparseSet processed = merged.pending.take();  // merge_uses() has put them there
  merged.pending.add_unknown(state.points, processed);
  if (!merged.pending.empty()) with_pending_.push_back(into);
}

// One use for all nodes of a cycle, whose sets will be equal. It is that of the node which has processed most. Returns
// it with the objects that it has processed in the place of the pending ones.
uint32_t InclusionSolver::merge_uses(const std::vector<Node>& cycle) {
  uint32_t most = kNoUse;
  Node owner = kNoNode;
  for (Node p : cycle)
    if (const uint32_t use = nodes_[p].use; use != kNoUse)
      if (most == kNoUse || uses_[use].seen_count > uses_[most].seen_count) most = use, owner = p;
  if (most == kNoUse) return kNoUse;
  Use& into = uses_[most];
  bool anew = false;
  for (Node p : cycle) {
    if (p == owner || nodes_[p].use == kNoUse) continue;
    Use other = std::exchange(uses_[nodes_[p].use], {});
    if (other.loaded != kNoNode && into.loaded != kNoNode) copy(into.loaded, other.loaded);
    else if (other.loaded != kNoNode) anew = true, into.loaded = other.loaded;
    if (other.stored != kNoNode && into.stored != kNoNode) copy(other.stored, into.stored);
    else if (other.stored != kNoNode) anew = true, into.stored = other.stored;
    if (!other.watches.empty()) anew = true;
    into.watches.insert(into.watches.end(), other.watches.begin(), other.watches.end());
  }
  const SparseSet pending = into.pending.take();
  if (anew) {
    into.load_join = into.store_join = kNoNode;
    into.seen = {};
    into.seen_count = 0;
  } else {
    into.pending.add_unknown(nodes_[owner].points, pending);
  }
  return most;
}

// In topological order, so that each node hands on once what has come to it in this wave.
void InclusionSolver::hand_on() {
  for (Node p : order_) {
    NodeState& state = nodes_[p];
    if (state.fresh.empty() && state.told == state.copies.size()) continue;
    const SparseSet fresh = state.fresh.take();
    state.points.add(fresh);
    if (state.use != kNoUse && !fresh.empty()) {
      Use& use = uses_[state.use];
      if (use.pending.empty()) with_pending_.push_back(p);
      use.pending.add(fresh);
    }
    for (size_t i = 0; i < state.copies.size(); i++) {
      NodeState& to = nodes_[find(state.copies[i])];
      if (&to != &state) to.fresh.add_unknown(i < state.told ? fresh : state.points, to.points);
    }
    state.told = static_cast<uint32_t>(state.copies.size());
  }
}

// False if there was nothing to do.
bool InclusionSolver::process_uses(const Watcher& watcher) {
  if (with_pending_.empty()) return false;
  std::vector<Node> nodes;
  nodes.swap(with_pending_);
  for (Node p : nodes) process(find(p), watcher);
  return true;
}

void InclusionSolver::process(Node p, const Watcher& watcher) {
  if (nodes_[p].use == kNoUse) return;
  Use& use = uses_[nodes_[p].use];
  const SparseSet pending = use.pending.take();
  if (pending.empty()) return;
  for (const uint32_t watch : std::vector(use.watches))
    pending.for_each([&](uint32_t object) { watcher(watch, object); });
  if (!use.pending.empty()) return;  // the watcher has added a use of this pointer, so all will be processed again
  pending.for_each([&](uint32_t object) {
    use.seen.low += randoms_[object].low;
    use.seen.high += randoms_[object].high;
    use.seen_count++;
  });
  if (use.loaded != kNoNode) connect_loads(p, use, pending);
  if (use.stored != kNoNode) connect_stores(p, use, pending);
}

void InclusionSolver::connect_loads(Node p, Use& use, const SparseSet& pending) {
  if (use.seen_count <= kFewObjects) {
    for_each_content(pending, [&](Node content) { copy(content, use.loaded); });
    return;
  }
  const auto [known, is_new] = load_joins_.try_emplace(use.seen, kNoNode);
  if (is_new) {
    const Node join = known->second = add_node();
    const bool grows = use.load_join != kNoNode;
    if (grows) copy(use.load_join, join);
    for_each_content(grows ? pending : nodes_[p].points, [&](Node content) { copy(content, join); });
  }
  use.load_join = known->second;
  copy(use.load_join, use.loaded);
}

void InclusionSolver::connect_stores(Node p, Use& use, const SparseSet& pending) {
  if (use.seen_count <= kFewObjects) {
    for_each_content(pending, [&](Node content) { copy(use.stored, content); });
    return;
  }
  const auto [known, is_new] = store_joins_.try_emplace(use.seen, kNoNode);
  if (is_new) {
    const Node join = known->second = add_node();
    const bool grows = use.store_join != kNoNode;
    if (grows) copy(join, use.store_join);
    for_each_content(grows ? pending : nodes_[p].points, [&](Node content) { copy(join, content); });
  }
  use.store_join = known->second;
  copy(use.stored, use.store_join);
}

InclusionSolver::Counts InclusionSolver::counts() const {
  Counts counts{.nodes = nodes_.size(), .joins = load_joins_.size() + store_joins_.size(), .waves = waves_};
  for (Node p = 0; p < nodes_.size(); p++) {
    if (parents_[p] != p) continue;
    counts.left++;
    counts.copies += nodes_[p].copies.size();
  }
  return counts;
}

}  // namespace friday::cut
