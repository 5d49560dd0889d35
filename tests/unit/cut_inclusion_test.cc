// The solver of inclusions against one that repeats all constraints until nothing changes: random systems, equal sets.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/cut/inclusion.h"

namespace friday::cut {
namespace {

using Node = InclusionSolver::Node;

struct Constraint {
  enum Kind { point, copy, load, store, call } kind;
  uint32_t a, b, c;  // of a call: the pointer that is called, argument, result
};

// Some objects are functions: they have a parameter and a result, and no content.
struct System {
  uint32_t nodes = 0;  // the first ones are contents, parameters and results of objects
  struct Item {
    bool is_function;
    Node content, parameter, result;
  };
  std::vector<Item> objects;
  std::vector<Constraint> constraints;
};

System random_system(std::mt19937& random) {
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  System system;
  const uint32_t objects = 1 + below(14);
  for (uint32_t i = 0; i < objects; i++) {
    const bool is_function = below(5) == 0;
    const Node first = system.nodes;
    system.nodes += is_function ? 2 : 1;
    system.objects.push_back({is_function, first, first, first + 1});
  }
  system.nodes += 1 + below(30);
  // Systems with few copies have deep chains of loads, those with many have large cycles.
  const uint32_t shares[] = {1 + below(6), 1 + below(10), below(6), below(6), below(4)};
  const uint32_t total = shares[0] + shares[1] + shares[2] + shares[3] + shares[4];
  const uint32_t count = 1 + below(3 * system.nodes);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t draw = below(total), kind = 0;
    while (draw >= shares[kind]) draw -= shares[kind++];
    const Node a = below(system.nodes), b = below(system.nodes), c = below(system.nodes);
    system.constraints.push_back({static_cast<Constraint::Kind>(kind), a, kind == 0 ? below(objects) : b, c});
  }
  return system;
}

std::vector<std::set<uint32_t>> naive(const System& system) {
  std::vector<std::set<uint32_t>> sets(system.nodes);
  bool changed = true;
  const auto include = [&](Node from, Node to) {
    const size_t before = sets[to].size();
    const std::set<uint32_t> all = sets[from];
    sets[to].insert(all.begin(), all.end());
    changed = changed || sets[to].size() != before;
  };
  while (changed) {
    changed = false;
    for (const auto& [kind, a, b, c] : system.constraints) {
      if (kind == Constraint::point) changed = sets[a].insert(b).second || changed;
      if (kind == Constraint::copy) include(a, b);
      if (kind == Constraint::point || kind == Constraint::copy) continue;
      const std::set<uint32_t> objects = sets[a];
      for (uint32_t object : objects) {
        const System::Item& item = system.objects[object];
        if (kind == Constraint::load && !item.is_function) include(item.content, b);
        if (kind == Constraint::store && !item.is_function) include(b, item.content);
        if (kind == Constraint::call && item.is_function) include(b, item.parameter), include(item.result, c);
      }
    }
  }
  return sets;
}

// `later`: so many of the constraints are added after a first solution.
InclusionSolver solved(const System& system, size_t later) {
  InclusionSolver solver;
  for (uint32_t i = 0; i < system.nodes; i++) solver.add_node();
  for (const auto& item : system.objects) solver.add_object(item.is_function ? InclusionSolver::kNoNode : item.content);
  const auto watcher = [&](uint32_t watch, uint32_t object) {
    const Constraint& call = system.constraints[watch];
    if (!system.objects[object].is_function) return;
    solver.copy(call.b, system.objects[object].parameter);
    solver.copy(system.objects[object].result, call.c);
  };
  const auto add = [&](size_t i) {
    const auto& [kind, a, b, c] = system.constraints[i];
    switch (kind) {
      case Constraint::point: return solver.point(a, b);
      case Constraint::copy: return solver.copy(a, b);
      case Constraint::load: return solver.load(a, b);
      case Constraint::store: return solver.store(a, b);
      case Constraint::call: return solver.watch(a, static_cast<uint32_t>(i));
    }
  };
  const size_t first = system.constraints.size() - std::min(later, system.constraints.size());
  for (size_t i = 0; i < first; i++) add(i);
  solver.solve(watcher);
  for (size_t i = first; i < system.constraints.size(); i++) add(i);
  if (later > 0) solver.solve(watcher);
  return solver;
}

TEST(Inclusion, SetsAreThoseOfANaiveSolver) {
  for (uint32_t seed = 0; seed < 4000; seed++) {
    std::mt19937 random(seed);
    const System system = random_system(random);
    const auto expected = naive(system);
    const InclusionSolver solver = solved(system, seed % 3 == 0 ? random() % 8 : 0);
    for (Node p = 0; p < system.nodes; p++) {
      const auto got = solver.points(p).numbers();
      ASSERT_EQ(std::set<uint32_t>(got.begin(), got.end()), expected[p]) << "seed " << seed << ", node " << p;
    }
  }
}

TEST(Inclusion, ConstraintsOfAWatcherCount) {
  // What a watcher adds to the very pointer that it watches.
  InclusionSolver solver;
  const Node content = solver.add_node(), p = solver.add_node(), loaded = solver.add_node();
  const uint32_t object = solver.add_object(content), other = solver.add_object(InclusionSolver::kNoNode);
  solver.point(p, object);
  solver.watch(p, 7);
  solver.solve([&](uint32_t watch, uint32_t) {
    EXPECT_EQ(watch, 7);
    solver.load(p, loaded);
    solver.point(content, other);
  });
  EXPECT_EQ(solver.points(loaded).numbers(), std::vector<uint32_t>{other});
}

TEST(Inclusion, CopiesInACircleAreOneNode) {
  InclusionSolver solver;
  for (uint32_t i = 0; i < 1000; i++) solver.add_node();
  for (Node i = 0; i < 1000; i++) solver.copy(i, (i + 1) % 1000);
  solver.point(500, solver.add_object(InclusionSolver::kNoNode));
  solver.solve({});
  EXPECT_EQ(solver.counts().left, 1);
  EXPECT_EQ(solver.points(0).count(), 1);
}

TEST(Inclusion, ManyPointersWithOneLargeSetDoNotMultiply) {
  // n pointers to n objects, each of which is stored to and loaded through: 2 * n * n copies without joins.
  constexpr uint32_t kCount = 2000;
  InclusionSolver solver;
  const Node all = solver.add_node();
  for (uint32_t i = 0; i < kCount; i++) {
    const Node content = solver.add_node(), p = solver.add_node(), value = solver.add_node();
    solver.point(all, solver.add_object(content));
    solver.copy(all, p);
    solver.load(p, value);
    solver.store(p, solver.add_node());
  }
  solver.solve({});
  EXPECT_LT(solver.counts().copies, 10 * kCount);
}

TEST(SparseSet, BehavesAsASetOfNumbers) {
  for (uint32_t seed = 0; seed < 500; seed++) {
    std::mt19937 random(seed);
    const uint32_t range = seed % 2 == 0 ? 600 : 100'000;
    SparseSet sets[3];
    std::set<uint32_t> expected[3];
    for (int i = 0; i < 100; i++) {
      const size_t one = random() % 3, other = random() % 3;
      const uint32_t number = random() % range;
      switch (random() % 4) {
        case 0: ASSERT_EQ(sets[one].insert(number), expected[one].insert(number).second); break;
        case 1: {
          const size_t before = expected[one].size();
          const auto all = expected[other];
          expected[one].insert(all.begin(), all.end());
          ASSERT_EQ(sets[one].add(SparseSet(sets[other])), expected[one].size() != before);
          break;
        }
        case 2: {
          const size_t known = random() % 3, before = expected[one].size();
          const auto all = expected[other], without = expected[known];
          for (uint32_t each : all)
            if (!without.contains(each)) expected[one].insert(each);
          ASSERT_EQ(sets[one].add_unknown(SparseSet(sets[other]), SparseSet(sets[known])),
                    expected[one].size() != before);
          break;
        }
        default: ASSERT_EQ(sets[one].contains(number), expected[one].contains(number));
      }
      const auto numbers = sets[one].numbers();
      ASSERT_EQ(numbers, std::vector<uint32_t>(expected[one].begin(), expected[one].end())) << "seed " << seed;
      ASSERT_EQ(sets[one].count(), expected[one].size());
      ASSERT_EQ(sets[one] == sets[other], expected[one] == expected[other]);
      ASSERT_TRUE(expected[one] != expected[other] || sets[one].hash() == sets[other].hash());
      ASSERT_EQ(sets[one].includes(sets[other]), std::ranges::includes(expected[one], expected[other]));
      const auto shared = [&](uint32_t each) { return expected[other].contains(each); };
      ASSERT_EQ(sets[one].intersects(sets[other]), std::ranges::any_of(expected[one], shared));
    }
  }
}

}  // namespace
}  // namespace friday::cut
