#include "core/cut/choice_text.h"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/counted.h"

namespace friday::cut {
namespace {

using nlohmann::json;

const char* edge_name(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::call: return "call";
    case EdgeKind::argument: return "argument";
    case EdgeKind::result: return "result";
    case EdgeKind::read: return "read";
    case EdgeKind::write: return "write";
    case EdgeKind::allocate: return "allocation";
    case EdgeKind::member: return "member";
  }
  return "";
}

std::string place_text(const Function& function) {
  if (function.place.file.empty()) return "";
  return fmt::format(" ({}:{})", function.place.file.substr(function.place.file.rfind('/') + 1), function.place.line);
}

// Bytes if there is a profile, else so many edges.
std::string amount(const Choice& choice, double bytes, uint64_t edges) {
  if (!choice.has_profile) return counted(edges, "edge");
  return size_text(static_cast<uint64_t>(std::min(bytes, 1e18)));
}
std::string amount(const Choice& choice, const CutCost& cost) { return amount(choice, cost.bytes, cost.edges); }

std::string compared(const Choice& choice, const CutCost& other) {
  const int64_t mine = choice.cost.weight;
  if (mine == other.weight) return "the same";
  if (mine == 0) return "the cut logs nothing";
  return fmt::format("{:.1f} times as much", static_cast<double>(other.weight) / static_cast<double>(mine));
}

// "argument 1 of f" says by itself what is handed over; of the others the kind is named.
std::string kind_text(EdgeKind kind, const char* behind) {
  const bool named = kind == EdgeKind::argument || kind == EdgeKind::result;
  return named ? std::string() : fmt::format("{}{}", edge_name(kind), behind);
}

std::string edge_text(const ChoiceView& view, uint32_t edge) {
  const auto& each = view.graph.edges[edge];
  return fmt::format("{}{} -> {}", kind_text(each.kind, ": "),
                     node_text(view.facts, view.points_to, view.graph, each.from),
                     node_text(view.facts, view.points_to, view.graph, each.to));
}

void add_replayed(std::string& text, const ChoiceView& view, size_t most) {
  const Choice& choice = view.choice;
  if (choice.replayed.empty()) {
    text += "No other function replays.\n";
    return;
  }
  text += fmt::format("\n{} {} besides the target, since what they hand to it would be more to log:\n",
                      counted(choice.replayed.size(), "function"), choice.replayed.size() == 1 ? "replays" : "replay");
  for (size_t i = 0; i < std::min(most, choice.replayed.size()); i++) {
    const Choice::Replayed& each = choice.replayed[i];
    const Function& function = view.facts.functions[each.function];
    text += fmt::format("  {}{}: saves {}", function.name, place_text(function),
                        amount(choice, static_cast<double>(each.saves) / kWeightOfByte,
                               static_cast<uint64_t>(each.saves / kWeightOfByte)));
    if (!each.gives.empty()) {
      const auto& edge = view.graph.edges[each.gives[0]];
      text += fmt::format("; most by {}{}{}", kind_text(edge.kind, " of "),
                          node_text(view.facts, view.points_to, view.graph, edge.to),
                          choice.has_profile ? ", " + amount(choice, edge.bytes, 1) : std::string());
    }
    text += "\n";
  }
  if (choice.replayed.size() > most) text += fmt::format("  and {} more\n", choice.replayed.size() - most);
}

void add_logged(std::string& text, const ChoiceView& view, size_t most) {
  const Choice& choice = view.choice;
  text += "\nLogged:\n";
  if (choice.logged.empty()) text += "  nothing: the target depends on nothing that can differ between two runs\n";
  for (size_t i = 0; i < std::min(most, choice.logged.size()); i++)
    text += fmt::format("  {:>10}  {}\n", amount(choice, choice.logged[i].bytes, 1),
                        edge_text(view, choice.logged[i].edge));
  if (choice.logged.size() > most) text += fmt::format("  and {} more edges\n", choice.logged.size() - most);
}

json cost_json(const CutCost& cost) {
  return {{"bytes", cost.bytes}, {"weight", cost.weight}, {"edges", cost.edges}, {"functions", cost.functions}};
}

json function_json(const Function& function) {
  return {{"name", function.name}, {"file", function.place.file}, {"line", function.place.line}};
}

json edge_json(const ChoiceView& view, uint32_t edge) {
  const auto& each = view.graph.edges[edge];
  return {{"kind", edge_name(each.kind)},
          {"from", node_text(view.facts, view.points_to, view.graph, each.from)},
          {"to", node_text(view.facts, view.points_to, view.graph, each.to)},
          {"bytes", each.bytes},
          {"weight", each.weight}};
}

std::string dot_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

std::string choice_text(const ChoiceView& view, size_t most) {
  const Choice& choice = view.choice;
  std::string text = fmt::format("target: {} ({} of {})\n", choice.target, counted(choice.functions.size(), "function"),
                                 view.facts.module);
  if (!choice.has_profile)
    text += "Without a profile all edges weigh the same: `friday cut profile` makes a better cut.\n";
  text += fmt::format("the cut logs          {:>12}, and {} {}\n", amount(choice, choice.cost),
                      counted(choice.cost.functions, "function"), choice.cost.functions == 1 ? "replays" : "replay");
  text +=
      fmt::format("the whole program     {:>12}, {}\n", amount(choice, choice.whole), compared(choice, choice.whole));
  text +=
      fmt::format("the target by itself  {:>12}, {}\n", amount(choice, choice.naive), compared(choice, choice.naive));
  if (choice.whole_program)
    text += "No cut logs less than the whole program: record that, and everything can be replayed.\n";
  add_replayed(text, view, most);
  add_logged(text, view, most);
  return text;
}

json choice_json(const ChoiceView& view) {
  const Choice& choice = view.choice;
  json target = json::array(), replayed = json::array(), logged = json::array();
  for (const Id each : choice.functions) target.push_back(function_json(view.facts.functions[each]));
  for (const Choice::Replayed& each : choice.replayed) {
    json function = function_json(view.facts.functions[each.function]);
    function["saves_weight"] = each.saves;
    function["gives"] = json::array();
    constexpr size_t kReasons = 5;
    for (size_t i = 0; i < std::min(kReasons, each.gives.size()); i++)
      function["gives"].push_back(edge_json(view, each.gives[i]));
    replayed.push_back(std::move(function));
  }
  for (const Choice::Logged& each : choice.logged) logged.push_back(edge_json(view, each.edge));
  return {{"program", view.facts.module},     {"fingerprint", view.facts.fingerprint},
          {"target", choice.target},          {"target_functions", std::move(target)},
          {"profile", choice.has_profile},    {"whole_program", choice.whole_program},
          {"cut", cost_json(choice.cost)},    {"whole", cost_json(choice.whole)},
          {"naive", cost_json(choice.naive)}, {"replayed", std::move(replayed)},
          {"logged", std::move(logged)}};
}

std::string choice_dot(const ChoiceView& view, size_t most) {
  const Choice& choice = view.choice;
  std::map<uint32_t, bool> drawn;  // nodes, and whether they are inside
  std::string edges;
  const auto add = [&](uint32_t edge, const char* colour) {
    const auto& each = view.graph.edges[edge];
    drawn[each.from] = choice.inside[each.from], drawn[each.to] = choice.inside[each.to];
    edges += fmt::format("  n{} -> n{} [color={}, label={}];\n", each.from, each.to, colour,
                         dot_text(choice.has_profile ? amount(choice, each.bytes, 1) : edge_name(each.kind)));
  };
  for (size_t i = 0; i < std::min(most, choice.logged.size()); i++) add(choice.logged[i].edge, "red");
  for (const Choice::Replayed& each : choice.replayed)
    if (drawn.size() < 2 * most && !each.gives.empty()) add(each.gives[0], "black");
  for (const Id each : choice.functions)
    if (drawn.size() < 3 * most) drawn[view.graph.function_node[each]] = true;
  std::string inside, outside;
  for (const auto& [node, is_inside] : drawn) {
    const auto& [kind, id, parameter] = view.graph.nodes[node];
    const bool is_target = kind == NodeKind::function && std::ranges::binary_search(choice.functions, id);
    const bool is_function = kind == NodeKind::function || kind == NodeKind::external || kind == NodeKind::start;
    (is_inside ? inside : outside) +=
        fmt::format("{}n{} [label={}, shape={}{}];\n", is_inside ? "    " : "  ", node,
                    dot_text(node_text(view.facts, view.points_to, view.graph, node)), is_function ? "box" : "ellipse",
                    is_target ? ", style=filled, fillcolor=gold" : "");
  }
  return fmt::format(
      "digraph {} {{\n  rankdir=LR;\n  subgraph cluster_inside {{\n    label=\"replayed\";\n{}  }}\n{}{}}}\n",
      dot_text(choice.target), inside, outside, edges);
}

std::string graph_text(const Facts& facts, const PointsTo& points_to, const DataFlow& graph, size_t most) {
  const DataFlow::Size size = graph.size();
  std::string text =
      fmt::format("{}: {} functions with code, {}\n", facts.module,
                  graph.function_node.size() - static_cast<size_t>(std::ranges::count(graph.function_node, kNone)),
                  counted(facts.modules.size(), "module"));
  text += fmt::format("graph: {} operations, {} values, {} edges (stand for {})\n", size.operations, size.values,
                      size.edges, size.pairs);
  std::vector<std::pair<std::string, uint64_t>> unknown(points_to.unknown_functions().begin(),
                                                        points_to.unknown_functions().end());
  std::ranges::stable_sort(unknown, std::ranges::greater(), &std::pair<std::string, uint64_t>::second);
  if (!unknown.empty())
    text += fmt::format(
        "\n{} with neither code nor annotation: each may write all that it reaches. Annotate those that are "
        "called often (docs/cut.md#annotations):\n",
        counted(unknown.size(), "function"));
  for (size_t i = 0; i < std::min(most, unknown.size()); i++)
    text += fmt::format("  {} (called at {})\n", unknown[i].first, counted(unknown[i].second, "place"));
  if (unknown.size() > most) text += fmt::format("  and {} more\n", unknown.size() - most);
  if (!facts.unseen.empty())
    text += fmt::format("\n{} that the compiler does not show:\n", counted(facts.unseen.size(), "piece of code"));
  for (size_t i = 0; i < std::min(most, facts.unseen.size()); i++) {
    const Unseen& each = facts.unseen[i];
    text += fmt::format("  {}{}\n", each.function == kNone ? std::string() : facts.functions[each.function].name + ": ",
                        each.what);
  }
  return text;
}

json graph_json(const Facts& facts, const PointsTo& points_to, const DataFlow& graph) {
  const DataFlow::Size size = graph.size();
  json unknown = json::array(), unseen = json::array(), modules = json::array();
  for (const auto& [name, sites] : points_to.unknown_functions()) unknown.push_back({{"name", name}, {"sites", sites}});
  for (const Unseen& each : facts.unseen)
    unseen.push_back({{"function", each.function == kNone ? json() : json(facts.functions[each.function].name)},
                      {"line", each.line},
                      {"what", each.what}});
  for (const Facts::Module& each : facts.modules)
    modules.push_back({{"name", each.name}, {"fingerprint", each.fingerprint}});
  return {{"program", facts.module},       {"fingerprint", facts.fingerprint},
          {"modules", std::move(modules)}, {"operations", size.operations},
          {"values", size.values},         {"edges", size.edges},
          {"pairs", size.pairs},           {"unknown", std::move(unknown)},
          {"unseen", std::move(unseen)}};
}

}  // namespace friday::cut
