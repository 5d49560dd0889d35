#include "core/cut/choose.h"

#include <algorithm>
#include <array>

namespace friday::cut {
namespace {

bool is_operation(NodeKind kind) {
  return kind == NodeKind::function || kind == NodeKind::external || kind == NodeKind::start;
}

// Sources stay outside, whatever else is said.
std::vector<bool> source_flags(const DataFlow& graph) {
  std::vector<bool> flags(graph.nodes.size());
  for (const uint32_t each : graph.sources) flags[each] = true;
  return flags;
}

CutCost cost_of(const DataFlow& graph, const std::vector<bool>& inside) {
  CutCost cost;
  for (const DataFlow::Edge& each : graph.edges) {
    if (inside[each.from] || !inside[each.to]) continue;
    cost.weight += each.weight;
    cost.bytes += each.bytes;
    cost.edges++;
  }
  for (uint32_t node = 0; node < graph.nodes.size(); node++)
    cost.functions += graph.nodes[node].kind == NodeKind::function && inside[node] ? 1 : 0;
  return cost;
}

// A set that is read is inside if all its objects are, a set that is written if any is: else an infinite edge were cut.
void place_sets(const DataFlow& graph, std::vector<bool>& inside) {
  for (uint32_t set = 0; set < graph.sets.size(); set++) {
    bool any = false, all = true;
    graph.sets[set].for_each([&](uint32_t item) {
      if (inside[graph.object_node[item]]) any = true;
      else all = false;
    });
    if (graph.read_node[set] != kNone) inside[graph.read_node[set]] = all;
    if (graph.write_node[set] != kNone) inside[graph.write_node[set]] = any;
  }
}

// Arguments and results are where they cost least.
void place_handed(const DataFlow& graph, std::vector<bool>& inside) {
  std::vector<std::array<int64_t, 2>> costs(graph.nodes.size());  // of being outside, inside
  for (const DataFlow::Edge& each : graph.edges) {
    if (is_operation(graph.nodes[each.to].kind) && inside[each.to])
      costs[each.from][0] += each.weight == kInfinite ? 0 : each.weight;
    if (is_operation(graph.nodes[each.from].kind) && !inside[each.from])
      costs[each.to][1] += each.weight == kInfinite ? 0 : each.weight;
  }
  for (uint32_t node = 0; node < graph.nodes.size(); node++)
    if (const NodeKind kind = graph.nodes[node].kind; kind == NodeKind::parameter || kind == NodeKind::result)
      inside[node] = costs[node][1] < costs[node][0];
}

// Which objects no function outside writes or allocates, and no source is.
std::vector<bool> written_inside_only(const DataFlow& graph, const std::vector<bool>& inside) {
  std::vector<bool> written(graph.nodes.size());  // sets that something outside writes
  for (const DataFlow::Edge& each : graph.edges)
    if (each.kind == EdgeKind::write && !inside[each.from]) written[each.to] = true;
  std::vector<bool> objects(graph.object_node.size(), true);
  for (uint32_t set = 0; set < graph.sets.size(); set++)
    if (graph.write_node[set] != kNone && written[graph.write_node[set]])
      graph.sets[set].for_each([&](uint32_t item) { objects[item] = false; });
  for (const DataFlow::Edge& each : graph.edges)
    if (each.kind == EdgeKind::allocate && !inside[each.from] && graph.nodes[each.to].kind == NodeKind::object)
      objects[graph.nodes[each.to].id] = false;
  const std::vector<bool> is_source = source_flags(graph);
  for (uint32_t item = 0; item < objects.size(); item++)
    if (graph.object_node[item] != kNone && is_source[graph.object_node[item]]) objects[item] = false;
  return objects;
}

// Brings objects inside that only functions inside write: nothing more is logged, and debuggers see them.
void take_own_objects(const DataFlow& graph, std::vector<bool>& inside) {
  const std::vector<bool> own = written_inside_only(graph, inside);
  for (uint32_t item = 0; item < own.size(); item++)
    if (own[item] && graph.object_node[item] != kNone) inside[graph.object_node[item]] = true;
  place_sets(graph, inside);
}

std::vector<Choice::Logged> logged_edges(const DataFlow& graph, const std::vector<bool>& inside) {
  std::vector<Choice::Logged> logged;
  for (uint32_t i = 0; i < graph.edges.size(); i++)
    if (const auto& edge = graph.edges[i]; !inside[edge.from] && inside[edge.to]) logged.push_back({i, edge.bytes});
  std::ranges::stable_sort(logged, std::ranges::greater(),
                           [&](const Choice::Logged& each) { return graph.edges[each.edge].weight; });
  return logged;
}

// For each function inside that is not of the target: what it gives to the others, and what it takes from outside.
std::vector<Choice::Replayed> explain(const DataFlow& graph, const Choice& choice) {
  std::vector<Choice::Replayed> all(graph.function_node.size());
  const auto function_at = [&](uint32_t node) {
    return graph.nodes[node].kind == NodeKind::function ? graph.nodes[node].id : kNone;
  };
  for (uint32_t i = 0; i < graph.edges.size(); i++) {
    const DataFlow::Edge& edge = graph.edges[i];
    if (const Id giver = function_at(edge.from); giver != kNone && choice.inside[edge.from] && choice.inside[edge.to]) {
      all[giver].saves += edge.weight;
      all[giver].gives.push_back(i);
    }
    if (const Id taker = function_at(edge.to); taker != kNone && choice.inside[edge.to] && !choice.inside[edge.from])
      all[taker].saves -= edge.weight;
  }
  std::vector<Choice::Replayed> replayed;
  for (Id function = 0; function < all.size(); function++) {
    const uint32_t node = graph.function_node[function];
    if (node == kNone || !choice.inside[node] || std::ranges::binary_search(choice.functions, function)) continue;
    all[function].function = function;
    std::ranges::stable_sort(all[function].gives, std::ranges::greater(),
                             [&](uint32_t edge) { return graph.edges[edge].weight; });
    replayed.push_back(std::move(all[function]));
  }
  std::ranges::stable_sort(replayed, std::ranges::greater(), &Choice::Replayed::saves);
  return replayed;
}

Result<MinimumCut> search(const DataFlow& graph, const std::vector<Id>& target) {
  std::vector<Arc> arcs;
  arcs.reserve(graph.edges.size());
  for (const DataFlow::Edge& each : graph.edges) arcs.push_back({each.from, each.to, each.weight});
  std::vector<uint32_t> sinks;
  for (const Id each : target) sinks.push_back(graph.function_node[each]);
  return minimum_cut(static_cast<uint32_t>(graph.nodes.size()), arcs, graph.sources, sinks);
}

}  // namespace

Sides sides_of(const DataFlow& graph, const std::vector<bool>& functions, const std::vector<bool>& objects) {
  const std::vector<bool> is_source = source_flags(graph);
  Sides sides;
  sides.inside.resize(graph.nodes.size());
  for (uint32_t node = 0; node < graph.nodes.size(); node++) {
    const auto& [kind, id, parameter] = graph.nodes[node];
    if (kind == NodeKind::function) sides.inside[node] = functions[id];
    if (kind == NodeKind::object) sides.inside[node] = objects[id] && !is_source[node];
  }
  place_sets(graph, sides.inside);
  place_handed(graph, sides.inside);
  sides.cost = cost_of(graph, sides.inside);
  return sides;
}

Result<Choice> choose_cut(const Facts& facts, const PointsTo& points_to, const DataFlow& graph,
                          std::string_view target) {
  Choice choice;
  choice.target = target;
  choice.has_profile = graph.has_profile;
  FRIDAY_TRY(functions, find_target(facts, target));
  choice.functions = functions;
  FRIDAY_TRY(minimum, search(graph, choice.functions));
  choice.phases = minimum.phases;
  choice.inside = std::move(minimum.inside);
  take_own_objects(graph, choice.inside);
  choice.cost = cost_of(graph, choice.inside);

  const std::vector<bool> all_functions(facts.functions.size(), true), all_objects(points_to.items().size(), true);
  Sides whole = sides_of(graph, all_functions, all_objects);
  choice.whole = whole.cost;
  std::vector<bool> target_only(facts.functions.size());
  for (const Id each : choice.functions) target_only[each] = true;
  const Sides alone = sides_of(graph, target_only, std::vector<bool>(points_to.items().size()));
  choice.naive = sides_of(graph, target_only, written_inside_only(graph, alone.inside)).cost;

  if (choice.cost.weight > choice.whole.weight) {
    choice.inside = std::move(whole.inside);
    choice.cost = choice.whole;
  }
  choice.whole_program = choice.cost.weight >= choice.whole.weight;
  choice.logged = logged_edges(graph, choice.inside);
  choice.replayed = explain(graph, choice);
  return choice;
}

std::string node_text(const Facts& facts, const PointsTo& points_to, const DataFlow& graph, uint32_t node) {
  const auto& [kind, id, parameter] = graph.nodes[node];
  switch (kind) {
    case NodeKind::function: return facts.functions[id].name;
    case NodeKind::external: return points_to.externals()[id].name;
    case NodeKind::start: return "the start of the program";
    case NodeKind::object: return points_to.items()[id].name;
    case NodeKind::parameter: return fmt::format("argument {} of {}", parameter, facts.functions[id].name);
    case NodeKind::result: return fmt::format("the result of {}", facts.functions[id].name);
    case NodeKind::read_set:
    case NodeKind::write_set: break;
  }
  constexpr size_t kNamed = 3;
  std::string text;
  size_t count = 0;
  graph.sets[id].for_each([&](uint32_t item) {
    const std::string& name = points_to.items()[item].name;
    if (count++ < kNamed) text += fmt::format("{}{}", text.empty() ? "" : ", ", name.empty() ? "a variable" : name);
  });
  return count > kNamed ? fmt::format("{} and {} more", text, count - kNamed) : text;
}

}  // namespace friday::cut
