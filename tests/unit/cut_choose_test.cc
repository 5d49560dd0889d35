// Cuts of random programs against all partitions of their functions and objects, and what a choice says of itself.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "core/cut/choice_text.h"
#include "core/cut/choose.h"
#include "core/cut/plan.h"
#include "tests/unit/cut_interpreter.h"
#include "tests/unit/cut_support.h"

namespace friday::cut {
namespace {

using testing::ProgramMaker;

const Annotations& annotations() {
  static const Annotations standard = Annotations::standard().value();
  return standard;
}

// The graph of a program, and what it needs to live.
struct Analysed {
  explicit Analysed(Facts program, const ProgramCounts* counts = nullptr)
      : facts(std::move(program)),
        points_to(facts, annotations()),
        graph(build_graph(facts, points_to, counts).value()) {}
  Facts facts;
  PointsTo points_to;
  DataFlow graph;
};

// The least weight over all sides of functions and objects; ~0 if there are too many.
int64_t least_cost(const Analysed& program, const std::vector<Id>& target) {
  std::vector<Id> functions, objects;
  for (Id i = 0; i < program.facts.functions.size(); i++)
    if (program.graph.function_node[i] != kNone && !std::ranges::binary_search(target, i)) functions.push_back(i);
  for (uint32_t i = 0; i < program.graph.object_node.size(); i++)
    if (program.graph.object_node[i] != kNone && !program.points_to.items()[i].outside) objects.push_back(i);
  const size_t bits = functions.size() + objects.size();
  if (bits > 13) return -1;
  int64_t best = INT64_MAX;
  for (uint32_t sides = 0; sides < 1u << bits; sides++) {
    std::vector<bool> inside(program.facts.functions.size()), memory(program.points_to.items().size());
    for (const Id each : target) inside[each] = true;
    for (size_t i = 0; i < functions.size(); i++) inside[functions[i]] = (sides >> i & 1) != 0;
    for (size_t i = 0; i < objects.size(); i++) memory[objects[i]] = (sides >> (functions.size() + i) & 1) != 0;
    best = std::min(best, sides_of(program.graph, inside, memory).cost.weight);
  }
  return best;
}

void check_explanation(const Analysed& program, const Choice& choice, uint32_t seed) {
  int64_t sum = 0;
  for (const Choice::Logged& each : choice.logged) {
    const auto& edge = program.graph.edges[each.edge];
    ASSERT_LT(edge.weight, kInfinite) << "seed " << seed;
    sum += edge.weight;
  }
  ASSERT_EQ(sum, choice.cost.weight) << "seed " << seed;
  ASSERT_EQ(choice.logged.size(), choice.cost.edges);
  ASSERT_EQ(choice.replayed.size() + choice.functions.size(), choice.cost.functions);
  for (const Choice::Replayed& each : choice.replayed) {
    ASSERT_GT(each.saves, 0) << "seed " << seed;
    ASSERT_FALSE(each.gives.empty());
  }
  ASSERT_LE(choice.cost.weight, choice.whole.weight) << "seed " << seed;
  ASSERT_LE(choice.cost.weight, choice.naive.weight) << "seed " << seed;
}

TEST(Choose, IsTheLeastOfAllPartitions) {
  size_t compared = 0;
  for (uint32_t seed = 0; seed < 600; seed++) {
    std::mt19937 random(seed);
    Facts facts = testing::random_program(random, 2 + seed % 4);
    const ProgramCounts counts = testing::random_counts(random, facts);
    const Analysed program(std::move(facts), seed % 3 == 0 ? nullptr : &counts);
    const std::string target = seed % 2 == 0 ? "f1" : "main";
    const auto choice = choose_cut(program.facts, program.points_to, program.graph, target);
    ASSERT_TRUE(choice) << choice.error().message;
    check_explanation(program, *choice, seed);
    const int64_t least = least_cost(program, choice->functions);
    if (least < 0) continue;
    compared++;
    ASSERT_EQ(choice->cost.weight, least) << "seed " << seed;
  }
  EXPECT_GT(compared, 100);
}

// Every access and call that a plan leaves alone needs nothing.
TEST(Choose, ThePlanNamesWhatIsLogged) {
  for (uint32_t seed = 0; seed < 300; seed++) {
    std::mt19937 random(seed);
    auto linked = link_with_ids("program", {testing::random_module(random, 5)});
    ASSERT_TRUE(linked);
    const Analysed program(linked->facts);
    const auto choice = choose_cut(program.facts, program.points_to, program.graph, "f2");
    ASSERT_TRUE(choice);
    const Plan plan = make_plan(*linked, program.points_to, program.graph, *choice);
    const auto again = parse_plan(plan_text(plan), "plan");
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(*again, plan);
    const Plan::Module& module = plan.modules[0];
    for (const DataFlow::Use& use : program.graph.uses) {
      if (use.access == kNone) continue;
      const bool inside = (module.functions[use.function] & Plan::kInside) != 0;
      const uint32_t read = program.graph.read_node[use.set], write = program.graph.write_node[use.set];
      const bool logged = use.reads && inside && !choice->inside[read];
      const bool enters = use.writes && !inside && choice->inside[write];
      ASSERT_TRUE(!logged || (module.accesses[use.access] & Plan::kLogsRead) != 0) << "seed " << seed;
      ASSERT_TRUE(!enters || (module.accesses[use.access] & Plan::kEntersMemory) != 0) << "seed " << seed;
    }
  }
}

// Watches a run, and compares what happens across the cut with what the plan says.
class PlanWatch {
 public:
  PlanWatch(const Analysed& program, const Choice& choice, const Plan::Module& plan)
      : program_(program), choice_(choice), plan_(plan) {
    for (Id i = 0; i < program.facts.accesses.size(); i++) {
      const Access& access = program.facts.accesses[i];
      flags_[{access.function, access.pointer, access.writes}] |= plan.accesses[i];
    }
  }

  testing::Interpreter::Observer observer() {
    return {.access =
                [this](Id function, Id pointer, bool writes, const auto& items) {
                  check(is_inside(function), writes, items, flags_.at({function, pointer, writes}), Plan::kLogsRead,
                        Plan::kEntersMemory, Plan::kLeavesMemory);
                },
            .external_access =
                [this](Id call, bool writes, const auto& items) {
                  const Call& site = program_.facts.calls[call];
                  const std::string& name = site.callee == kNone ? "" : program_.facts.functions[site.callee].name;
                  check(name == "memcpy" && is_inside(site.function), writes, items, plan_.calls[call],
                        Plan::kCallLogsRead, Plan::kCallEntersMemory, Plan::kCallLeavesMemory);
                },
            .enters =
                [this](Id call, Id function, bool callback) {
                  const bool from = !callback && is_inside(program_.facts.calls[call].function),
                             to = is_inside(function);
                  if (from == to) return;
                  crossings++;
                  if ((plan_.calls[call] & (to ? Plan::kCallsInside : Plan::kCallsOutside)) == 0) wrong++;
                }};
  }
  size_t crossings = 0, wrong = 0;

 private:
  bool is_inside(Id function) const { return (plan_.functions[function] & Plan::kInside) != 0; }
  void check(bool from, bool writes, const std::set<uint32_t>& items, uint32_t flags, uint32_t logs, uint32_t enters,
             uint32_t leaves) {
    bool inside = false, outside = false;
    for (const uint32_t item : items) {
      const uint32_t node = program_.graph.object_node[item];
      (node != kNone && choice_.inside[node] ? inside : outside) = true;
    }
    if (inside == outside || from == inside) return;
    if (!from && !writes) return;  // what is outside reads inside costs nothing
    crossings++;
    if ((flags & (!writes ? logs : from ? leaves : enters)) == 0) wrong++;
  }

  const Analysed& program_;
  const Choice& choice_;
  const Plan::Module& plan_;
  std::map<std::tuple<Id, Id, bool>, uint32_t> flags_;
};

TEST(Choose, RunsCrossTheCutOnlyWhereThePlanSays) {
  size_t crossings = 0;
  for (uint32_t seed = 0; seed < 1000; seed++) {
    std::mt19937 random(seed);
    auto linked = link_with_ids("program", {testing::random_module(random, 2 + seed % 8)});
    ASSERT_TRUE(linked);
    const ProgramCounts counts = testing::random_counts(random, linked->facts);
    const Analysed program(linked->facts, &counts);
    const auto choice =
        choose_cut(program.facts, program.points_to, program.graph, seed % 2 == 0 ? "f1" : "program.c:f1,main");
    ASSERT_TRUE(choice) << choice.error().message;
    const Plan plan = make_plan(*linked, program.points_to, program.graph, *choice);
    PlanWatch watch(program, *choice, plan.modules[0]);
    ASSERT_EQ(testing::Interpreter(program.facts, program.points_to, random, watch.observer()).run(), "")
        << "seed " << seed;
    ASSERT_EQ(watch.wrong, 0) << "seed " << seed;
    crossings += watch.crossings;
  }
  EXPECT_GT(crossings, 10'000);
}

TEST(Plan, DamageIsRefused) {
  std::mt19937 random(3);
  auto linked = link_with_ids("program", {testing::random_module(random, 5)});
  const Analysed program(linked->facts);
  const auto choice = choose_cut(program.facts, program.points_to, program.graph, "f2");
  const std::string text = plan_text(make_plan(*linked, program.points_to, program.graph, *choice));
  for (uint32_t i = 0; i < 3000; i++) {
    std::string damaged = text;
    for (size_t changes = 1 + random() % 3; changes > 0; changes--) {
      const size_t at = random() % damaged.size();
      if (random() % 4 == 0) damaged.resize(at + 1);
      else damaged[at] = "0123456789[]{},:\"x-"[random() % 19];
    }
    const auto read = parse_plan(damaged, "plan");
    ASSERT_TRUE(read || !read.error().message.empty());
  }
  EXPECT_FALSE(parse_plan(R"({"friday_cut_plan":2})", "plan"));
  const auto plan = parse_plan(text, "plan");
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->module("program.c", std::string(32, 'a')));
  const auto other = plan->module("program.c", std::string(32, 'c'));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("program.c"), std::string::npos);
}

// main reads a lot from outside into a buffer; parse() reads it all, and gives 8 bytes to the target.
struct ParserProgram {
  ProgramMaker maker;
  ProgramCounts counts;
  ParserProgram() {
    const Id main = maker.function("main"), parse = maker.function("parse", 1), target = maker.function("target", 1);
    const Id read = maker.declared("read"), buffer = maker.variable("buffer"), summary = maker.variable("summary");
    const Id zero = maker.pointer(), p = maker.address(main, buffer);
    maker.call(main, read, {zero, p, zero});
    maker.last_call().result.length = 0;
    maker.facts.lengths = 1;
    maker.call(main, parse, {p});
    const Id value = maker.load(parse, maker.parameter(parse, 0));
    maker.store(parse, maker.address(parse, summary), value);
    maker.call(main, target, {maker.address(main, summary)});
    maker.load(target, maker.parameter(target, 0));
    maker.facts.functions[target].place.file = "/src/deep/target.c";
    counts.blocks = {1, 1, 1};
    counts.lengths = {1'000'000};
  }
};

TEST(Choose, LogsWhatIsSmall) {
  ParserProgram made;
  // Each read of the target is 8 bytes, once: nothing else has to replay.
  const Analysed program(made.maker.linked(), &made.counts);
  const auto choice = choose_cut(program.facts, program.points_to, program.graph, "target.c");
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_LT(choice->cost.bytes, 100);
  EXPECT_GT(choice->whole.bytes, 1'000'000);
  EXPECT_FALSE(choice->whole_program);
  const std::string text = choice_text({program.facts, program.points_to, program.graph, *choice});
  EXPECT_NE(text.find("target.c (1 function of program)"), std::string::npos) << text;
  const auto json = choice_json({program.facts, program.points_to, program.graph, *choice});
  EXPECT_EQ(json["target_functions"][0]["name"], "target");
  EXPECT_EQ(json["logged"].size(), choice->logged.size());
  const std::string dot = choice_dot({program.facts, program.points_to, program.graph, *choice});
  EXPECT_TRUE(dot.starts_with("digraph")) << dot;
  EXPECT_NE(dot.find("\"target\", shape=box, style=filled"), std::string::npos) << dot;
}

TEST(Choose, MakesReplayWhatWouldHandOverMuch) {
  ParserProgram made;
  // The target reads 1,000,000 times what parse() writes once from 10 bytes of input.
  made.counts.blocks = {1, 1, 1'000'000};
  made.counts.lengths = {10};
  const Analysed program(made.maker.linked(), &made.counts);
  const auto choice = choose_cut(program.facts, program.points_to, program.graph, "target");
  ASSERT_TRUE(choice);
  EXPECT_LT(choice->cost.bytes, 200);
  EXPECT_GT(choice->naive.bytes, 1'000'000);
}

TEST(Choose, AWriteOutsideIntoTheTargetsMemoryIsLoggedOnce) {
  // The target reads a variable a thousand times, which main writes once: the write is logged, not the reads.
  ProgramMaker maker;
  const Id main = maker.function("main"), target = maker.function("target"), time = maker.declared("time");
  const Id variable = maker.variable("variable");
  const Id now = maker.call(main, time, {maker.pointer()});
  maker.store(main, maker.address(main, variable), now);
  maker.load(target, maker.address(target, variable));
  maker.call(main, target, {});
  const ProgramCounts counts{{1, 1000}, {}};
  const Analysed program(maker.linked(), &counts);
  const auto choice = choose_cut(program.facts, program.points_to, program.graph, "target");
  ASSERT_TRUE(choice);
  EXPECT_LT(choice->cost.bytes, 100);
  EXPECT_GT(choice->naive.bytes, 5000);
}

// The bytes of the edges of a kind from one node to another, by their names.
double bytes_between(const Analysed& program, EdgeKind kind, std::string_view from, std::string_view to) {
  double bytes = 0;
  for (const DataFlow::Edge& each : program.graph.edges)
    if (each.kind == kind && node_text(program.facts, program.points_to, program.graph, each.from) == from &&
        node_text(program.facts, program.points_to, program.graph, each.to) == to)
      bytes += each.bytes;
  return bytes;
}

TEST(Graph, WhatOutsideCallsIsEnteredFromOutside) {
  ProgramMaker maker;
  const Id main = maker.function("main"), handler = maker.function("handler", 1);
  maker.call(main, maker.declared("nobody_knows_me"), {maker.address_of_function(main, handler)});
  maker.call(main, handler, {maker.pointer()});
  const ProgramCounts counts{{2, 50}, {}};
  const Analysed program(maker.linked(), &counts);
  EXPECT_EQ(bytes_between(program, EdgeKind::call, "the start of the program", "main"), 2 * kCallBytes);
  EXPECT_EQ(bytes_between(program, EdgeKind::call, "main", "handler"), 2 * kCallBytes);
  // The other 48 calls must be the library's.
  EXPECT_EQ(bytes_between(program, EdgeKind::call, "libraries without description", "handler"), 48 * kCallBytes);
}

TEST(Graph, AnIndirectCallIsChargedForWhatItMayHaveReached) {
  ProgramMaker maker;
  const Id main = maker.function("main"), rare = maker.function("rare", 1), often = maker.function("often", 1);
  const Id target = maker.pointer();
  maker.copy(main, maker.address_of_function(main, rare), target);
  maker.copy(main, maker.address_of_function(main, often), target);
  maker.call_by(main, target, {maker.pointer()});
  const ProgramCounts counts{{100, 3, 1000}, {}};
  const Analysed program(maker.linked(), &counts);
  EXPECT_EQ(bytes_between(program, EdgeKind::call, "main", "rare"), 3 * kCallBytes);
  EXPECT_EQ(bytes_between(program, EdgeKind::call, "main", "often"), 100 * kCallBytes);
}

TEST(Target, UnknownNamesGetTheNearestOnes) {
  ParserProgram made;
  const Facts facts = made.maker.linked();
  const auto misspelt = find_target(facts, "tarjet");
  ASSERT_FALSE(misspelt);
  EXPECT_EQ(misspelt.error().code, ErrorCode::not_found);
  EXPECT_NE(misspelt.error().message.find("the nearest is `target`"), std::string::npos) << misspelt.error().message;
  const auto file = find_target(facts, "tarrget.c");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("target.c"), std::string::npos) << file.error().message;
  const auto declared = find_target(facts, "read");
  ASSERT_FALSE(declared);
  EXPECT_NE(declared.error().message.find("not in the bitcode"), std::string::npos) << declared.error().message;
  EXPECT_FALSE(find_target(facts, "main,"));
}

TEST(Target, FilesAndFunctionsMayBeMixed) {
  ParserProgram made;
  made.maker.facts.functions.push_back(made.maker.facts.functions[1]);
  made.maker.facts.functions.pop_back();
  const Facts facts = made.maker.linked();
  EXPECT_EQ(find_target(facts, "deep/target.c,parse")->size(), 2);
  EXPECT_EQ(find_target(facts, "program.c")->size(), 2);
  EXPECT_EQ(find_target(facts, "program.c:parse")->size(), 1);
  EXPECT_FALSE(find_target(facts, "target.c:parse"));
  EXPECT_FALSE(find_target(facts, "rget.c"));
}

TEST(Target, StaticFunctionsOfOneNameNeedTheirFile) {
  ProgramMaker one, other;
  other.facts.module = "other.c", other.facts.fingerprint = std::string(32, 'b');
  one.function("parse", 0, Linkage::internal);
  other.function("parse", 0, Linkage::internal);
  const auto facts = link("program", {one.facts, other.facts});
  ASSERT_TRUE(facts);
  const auto both = find_target(*facts, "parse");
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().message.find("program.c:parse, other.c:parse"), std::string::npos) << both.error().message;
  EXPECT_EQ(find_target(*facts, "other.c:parse"), std::vector<Id>{1});
}

}  // namespace
}  // namespace friday::cut
