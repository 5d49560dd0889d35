// Makes the plan of any cut, not of the cheapest: a recording must be right for each choice of what is inside. Which
// functions are inside is given by name or chosen at random; which memory is inside is chosen at random.
//
//   cut_record_plan FACTS PLAN SEED [FUNCTION...]     prints the functions that are inside
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/cut/choose.h"
#include "core/cut/plan.h"
#include "core/cut/program.h"

namespace friday::cut {
namespace {

Result<void> make(const std::string& facts, const std::string& path, unsigned seed, std::vector<std::string> names) {
  FRIDAY_TRY(program, read_program("program", facts));
  FRIDAY_TRY(annotations, Annotations::standard());
  const PointsTo points_to(program.facts, annotations);
  FRIDAY_TRY(graph, build_graph(program.facts, points_to, nullptr));
  std::mt19937 random(seed);
  std::vector<bool> functions(program.facts.functions.size()), objects(points_to.items().size());
  const unsigned share = 1 + random() % 9;  // of 10
  for (Id i = 0; i < functions.size(); i++) {
    const Function& each = program.facts.functions[i];
    if (graph.function_node[i] == kNone) continue;
    const bool named = std::ranges::find(names, each.name) != names.end();
    functions[i] = names.empty() ? random() % 10 < share && each.name != "main" : named;
  }
  const unsigned style = random() % 3;  // memory inside: at random, almost all, as little as its functions need
  for (uint32_t i = 0; i < objects.size(); i++) {
    const PointsTo::Item& each = points_to.items()[i];
    const bool own = each.kind == ObjectKind::stack && each.function != kNone && functions[each.function];
    objects[i] = style == 0 ? random() % 2 == 0 : style == 1 ? random() % 8 != 0 : own;
  }
  Choice choice;
  choice.target = fmt::format("seed {}", seed);
  choice.inside = sides_of(graph, functions, objects).inside;
  for (Id i = 0; i < functions.size(); i++)
    if (functions[i]) {
      choice.functions.push_back(i);
      fmt::print("{} ", program.facts.functions[i].name);
    }
  fmt::print("\n");
  return write_plan(make_plan(program, points_to, graph, choice), path);
}

}  // namespace
}  // namespace friday::cut

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto done = friday::cut::make(argv[1], argv[2], static_cast<unsigned>(atoi(argv[3])), {argv + 4, argv + argc});
  if (!done) fmt::print(stderr, "cut_record_plan: {}\n", describe(done.error()));
  return done ? 0 : 2;
}
