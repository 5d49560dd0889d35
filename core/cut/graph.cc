#include "core/cut/graph.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "core/cut/weights.h"

namespace friday::cut {
namespace {

constexpr double kPointerBytes = 8;
// All weights of a graph together stay below kInfinite.
constexpr double kMostWeight = 1e18;

class GraphBuilder {
 public:
  GraphBuilder(const Facts& facts, const PointsTo& points_to, const ProgramCounts* counts)
      : facts_(facts), points_to_(points_to), weights_(facts, points_to, counts) {
    graph_.has_profile = counts != nullptr;
  }

  DataFlow run() {
    graph_.function_node.assign(facts_.functions.size(), kNone);
    for (Id i = 0; i < facts_.functions.size(); i++)
      if (facts_.functions[i].linkage != Linkage::declared)
        graph_.function_node[i] = add_node({NodeKind::function, i, 0});
    external_nodes_.assign(points_to_.externals().size(), kNone);
    graph_.object_node.assign(points_to_.items().size(), kNone);
    add_accesses();
    add_effects();
    for (const PointsTo::Target& each : points_to_.targets()) add_call(each);
    for (const PointsTo::ExternalCall& each : points_to_.external_calls()) add_external_call(each);
    add_entries();
    add_allocations();
    add_members();
    merge_edges();
    return std::move(graph_);
  }

 private:
  uint32_t add_node(DataFlow::Node node) {
    graph_.nodes.push_back(node);
    return static_cast<uint32_t>(graph_.nodes.size() - 1);
  }
  void add_edge(uint32_t from, uint32_t to, EdgeKind kind, double bytes) {
    if (from != to) graph_.edges.push_back({from, to, kind, 0, bytes});
  }
  uint32_t source(uint32_t& node, DataFlow::Node as) {
    if (node == kNone) {
      node = add_node(as);
      graph_.sources.push_back(node);
    }
    return node;
  }
  uint32_t external_node(Id external) { return source(external_nodes_[external], {NodeKind::external, external, 0}); }
  uint32_t start_node() { return source(start_, {NodeKind::start, kNone, 0}); }
  uint32_t caller_node(Id external, uint32_t site) {
    if (external != kNone) return external_node(external);
    return graph_.function_node[facts_.calls[points_to_.contexts().sites()[site].call].function];
  }
  uint32_t value_node(std::unordered_map<uint64_t, uint32_t>& nodes, NodeKind kind, Id function, uint32_t parameter) {
    const auto [known, is_new] = nodes.try_emplace(uint64_t{function} << 32 | parameter, 0);
    if (is_new) known->second = add_node({kind, function, parameter});
    return known->second;
  }

  // The set of what a pointer may point to, without functions and constants; kNone if nothing is left.
  uint32_t set_of(PointsTo::Node pointer) {
    const PointsTo::Node representative = points_to_.representative(pointer);
    const auto [known, is_new] = set_of_node_.try_emplace(representative, kNone);
    if (!is_new) return known->second;
    SparseSet memory;
    points_to_.points(representative).for_each([&](uint32_t item) {
      const PointsTo::Item& each = points_to_.items()[item];
      if (each.kind != ObjectKind::function && !each.constant) memory.insert(item);
    });
    if (memory.empty()) return kNone;
    auto& equal = sets_by_hash_[memory.hash()];
    for (const uint32_t set : equal)
      if (graph_.sets[set] == memory) return known->second = set;
    const auto set = static_cast<uint32_t>(graph_.sets.size());
    equal.push_back(set);
    graph_.sets.push_back(std::move(memory));
    graph_.read_node.push_back(kNone);
    graph_.write_node.push_back(kNone);
    return known->second = set;
  }

  void add_use(uint32_t node, PointsTo::Node pointer, DataFlow::Use use, double bytes) {
    use.set = set_of(pointer);
    if (use.set == kNone) return;
    if (use.reads) {
      uint32_t& set = graph_.read_node[use.set];
      if (set == kNone) set = add_node({NodeKind::read_set, use.set, 0});
      add_edge(set, node, EdgeKind::read, bytes);
    }
    if (use.writes) {
      uint32_t& set = graph_.write_node[use.set];
      if (set == kNone) set = add_node({NodeKind::write_set, use.set, 0});
      add_edge(node, set, EdgeKind::write, bytes);
    }
    graph_.uses.push_back(use);
  }

  void add_accesses() {
    const Contexts& contexts = points_to_.contexts();
    std::vector<std::vector<Id>> contexts_of(facts_.functions.size());
    for (Id i = 0; i < contexts.contexts().size(); i++) contexts_of[contexts.contexts()[i].function].push_back(i);
    for (Id i = 0; i < facts_.accesses.size(); i++) {
      const Access& access = facts_.accesses[i];
      const auto add = [&](Id context) {
        add_use(graph_.function_node[access.function], contexts.pointer(context, access.pointer),
                {.function = access.function, .reads = access.reads, .writes = access.writes, .access = i},
                weights_.bytes(context, access));
      };
      add(kNone);
      for (const Id context : contexts_of[access.function]) add(context);
    }
  }

  void add_effects() {
    for (const PointsTo::Effect& each : points_to_.effects()) {
      const Id call = points_to_.contexts().sites()[each.site].call;
      const Id function = each.external != kNone   ? kNone
                          : each.function != kNone ? each.function
                                                   : facts_.calls[call].function;
      const uint32_t node = function == kNone ? external_node(each.external) : graph_.function_node[function];
      add_use(
          node, each.pointer,
          {.function = function, .external = each.external, .reads = each.reads, .writes = each.writes, .call = call},
          weights_.bytes(each));
    }
  }

  void add_call(const PointsTo::Target& target) {
    const Call& call = facts_.calls[points_to_.contexts().sites()[target.site].call];
    const uint32_t caller = caller_node(target.external, target.site);
    const double times = weights_.reached(target);
    add_passing(caller, target.function, times);
    if (facts_.functions[target.function].variadic && !target.is_callback)
      add_variable_arguments(caller, target, call, times);
  }

  // The call itself, its arguments and its result.
  void add_passing(uint32_t from, Id function, double times) {
    const uint32_t to = graph_.function_node[function];
    const Function& callee = facts_.functions[function];
    const double entries = weights_.entries(function);
    add_edge(from, to, EdgeKind::call, times * kCallBytes);
    for (uint32_t i = 0; i < callee.parameters.size(); i++) {
      const double bytes = callee.parameters[i].bytes == 0 ? kPointerBytes : callee.parameters[i].bytes;
      const uint32_t value = value_node(parameters_, NodeKind::parameter, function, i);
      add_edge(from, value, EdgeKind::argument, times * bytes);
      if (has_consumer_.insert(value, to)) add_edge(value, to, EdgeKind::argument, entries * bytes);
    }
    if (callee.result.bytes == 0) return;
    const uint32_t value = value_node(results_, NodeKind::result, function, 0);
    if (has_consumer_.insert(to, value)) add_edge(to, value, EdgeKind::result, entries * callee.result.bytes);
    add_edge(value, from, EdgeKind::result, times * callee.result.bytes);
  }

  // The caller writes them to the callee's memory.
  void add_variable_arguments(uint32_t from, const PointsTo::Target& target, const Call& call, double times) {
    const Function& callee = facts_.functions[target.function];
    if (callee.variable_arguments == kNone || call.arguments.size() <= callee.parameters.size()) return;
    double bytes = 0;
    for (size_t i = callee.parameters.size(); i < call.arguments.size(); i++)
      bytes += call.arguments[i].bytes == 0 ? kPointerBytes : call.arguments[i].bytes;
    const DataFlow::Node& node = graph_.nodes[from];
    DataFlow::Use use{.writes = true, .call = points_to_.contexts().sites()[target.site].call};
    (node.kind == NodeKind::function ? use.function : use.external) = node.id;
    add_use(from, points_to_.contexts().pointer(target.context, callee.variable_arguments), use, times * bytes);
  }

  void add_external_call(const PointsTo::ExternalCall& external) {
    if (external.deterministic || !external.is_call) return;
    const Call& call = facts_.calls[points_to_.contexts().sites()[external.site].call];
    if (call.result.bytes == 0) return;
    add_edge(external_node(external.external), graph_.function_node[call.function], EdgeKind::result,
             weights_.site_times(external.site) * call.result.bytes);
  }

  void add_entries() {
    for (const PointsTo::Entry& each : points_to_.entries())
      add_passing(each.external == kNone ? start_node() : external_node(each.external), each.function,
                  weights_.unexplained_entries(each.function));
  }

  void add_allocations() {
    for (const PointsTo::Allocation& each : points_to_.allocations()) {
      const uint32_t object = object_node(each.item);
      const uint32_t from =
          each.function != kNone ? graph_.function_node[each.function] : caller_node(each.external, each.site);
      const double times = weights_.site_times(each.site);
      add_edge(from, object, EdgeKind::allocate, times * kAllocationBytes);
      if (each.external == kNone) add_edge(object, from, EdgeKind::allocate, times * kPointerBytes);
    }
  }

  uint32_t object_node(uint32_t item) {
    uint32_t& node = graph_.object_node[item];
    if (node == kNone) {
      node = add_node({NodeKind::object, item, 0});
      if (points_to_.items()[item].outside) graph_.sources.push_back(node);
    }
    return node;
  }

  void add_members() {
    members_begin_ = graph_.edges.size();
    for (uint32_t set = 0; set < graph_.sets.size(); set++)
      graph_.sets[set].for_each([&](uint32_t item) {
        const uint32_t object = object_node(item);
        if (graph_.read_node[set] != kNone) add_edge(object, graph_.read_node[set], EdgeKind::member, 0);
        if (graph_.write_node[set] != kNone) add_edge(graph_.write_node[set], object, EdgeKind::member, 0);
      });
  }

  // One edge of a kind between two nodes, with its weight. Those of members are single already.
  void merge_edges() {
    auto& edges = graph_.edges;
    const auto key = [](const DataFlow::Edge& edge) { return std::tuple(edge.from, edge.to, edge.kind); };
    const auto members = edges.begin() + static_cast<std::ptrdiff_t>(members_begin_);
    std::sort(edges.begin(), members, [&](const auto& a, const auto& b) { return key(a) < key(b); });
    size_t kept = 0;
    double sum = 0;
    for (size_t i = 0; i < members_begin_; i++) {
      sum += edges[i].bytes;
      if (kept > 0 && key(edges[kept - 1]) == key(edges[i])) edges[kept - 1].bytes += edges[i].bytes;
      else edges[kept++] = edges[i];
    }
    const double scale = std::min<double>(kWeightOfByte, sum > 0 ? kMostWeight / sum : kWeightOfByte);
    for (size_t i = 0; i < kept; i++)
      edges[i].weight = graph_.has_profile ? std::max<int64_t>(1, std::llround(edges[i].bytes * scale)) : kWeightOfByte;
    for (auto edge = members; edge != edges.end(); ++edge) edge->weight = kInfinite;
    edges.erase(edges.begin() + static_cast<std::ptrdiff_t>(kept), members);
  }

  const Facts& facts_;
  const PointsTo& points_to_;
  const Weights weights_;
  DataFlow graph_;
  std::vector<uint32_t> external_nodes_;
  uint32_t start_ = kNone;
  std::unordered_map<PointsTo::Node, uint32_t> set_of_node_;  // by representative
  std::unordered_map<uint64_t, std::vector<uint32_t>> sets_by_hash_;
  std::unordered_map<uint64_t, uint32_t> parameters_, results_;  // by function and index
  EdgeSet has_consumer_;
  size_t members_begin_ = 0;
};

}  // namespace

DataFlow::Size DataFlow::size() const {
  Size size;
  for (const Node& each : nodes) {
    const bool operation =
        each.kind == NodeKind::function || each.kind == NodeKind::external || each.kind == NodeKind::start;
    (operation ? size.operations : size.values)++;
  }
  size.edges = edges.size();
  std::vector<size_t> counts;
  for (const SparseSet& each : sets) counts.push_back(each.count());
  for (const Edge& each : edges) {
    if (each.kind == EdgeKind::read) size.pairs += counts[nodes[each.from].id];
    else if (each.kind == EdgeKind::write) size.pairs += counts[nodes[each.to].id];
    else if (each.kind != EdgeKind::member) size.pairs++;
  }
  return size;
}

Result<DataFlow> build_graph(const Facts& facts, const PointsTo& points_to, const ProgramCounts* counts) {
  if (counts != nullptr && (counts->blocks.size() != facts.blocks.size() || counts->lengths.size() != facts.lengths))
    return fail(ErrorCode::usage, "the profile has {} blocks, and {} has {}: it is of another program",
                counts->blocks.size(), facts.module, facts.blocks.size());
  return GraphBuilder(facts, points_to, counts).run();
}

}  // namespace friday::cut
