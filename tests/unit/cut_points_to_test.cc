// Points-to sets of programs: what each way of handing a pointer on does; and random programs are run, where each
// pointer must point to what its set predicts.
#include <gtest/gtest.h>

#include <set>

#include "core/cut/points_to.h"
#include "tests/unit/cut_interpreter.h"
#include "tests/unit/cut_support.h"

namespace friday::cut {
namespace {

using testing::ProgramMaker;

const Annotations& described() {
  static const Annotations standard = Annotations::standard().value();
  return standard;
}

// Names of the objects that a pointer may point to.
std::set<std::string> names_at(const PointsTo& points_to, Id pointer, Id context = kNone) {
  std::set<std::string> names;
  points_to.points(context, pointer).for_each([&](uint32_t item) { names.insert(points_to.items()[item].name); });
  return names;
}
using Names = std::set<std::string>;

struct Main {
  ProgramMaker maker;
  Id main = maker.function("main");
  Id object = maker.variable("object"), box = maker.variable("box"), other = maker.variable("other");
  Id p = maker.address(main, object), q = maker.address(main, box);
  Facts facts;
  PointsTo solved() {
    facts = maker.linked();
    return PointsTo(facts, described());
  }
};

TEST(PointsTo, MemcpyOfUnknownLengthMovesPointers) {
  Main m;
  m.maker.store(m.main, m.p, m.q);
  const Id to = m.maker.address(m.main, m.other);
  m.maker.move(m.main, to, m.p);
  const Id loaded = m.maker.load(m.main, to);
  const Id call_to = m.maker.address(m.main, m.maker.variable("fourth"));
  m.maker.call(m.main, m.maker.declared("memcpy"), {call_to, to, m.maker.pointer()});
  const Id by_call = m.maker.load(m.main, call_to);
  const PointsTo points_to(m.solved());
  EXPECT_EQ(names_at(points_to, loaded), Names{"box"});
  EXPECT_EQ(names_at(points_to, by_call), Names{"box"});
}

TEST(PointsTo, PiecesOfPointersCountUnlessSaidOtherwise) {
  Main m;
  m.maker.store(m.main, m.p, m.q);
  const Id to = m.maker.address(m.main, m.other);
  m.maker.move(m.main, to, m.p, 1);
  const Id loaded = m.maker.load(m.main, to);
  const Facts facts = m.maker.linked();
  EXPECT_EQ(names_at(PointsTo(facts, described()), loaded), Names{"box"});
  EXPECT_EQ(names_at(PointsTo(facts, described(), {.limits = {}, .pieces_carry_pointers = false}), loaded), Names{});
}

TEST(PointsTo, VariableArgumentsReachTheCalleesMemory) {
  Main m;
  const Id callee = m.maker.function("callee", 1);
  Function& variadic = m.maker.facts.functions[callee];
  variadic.variadic = true;
  const Id memory = m.maker.local(callee, "...");
  m.maker.facts.functions[callee].variable_arguments = m.maker.address(callee, memory);
  const Id argument = m.maker.load(callee, m.maker.facts.functions[callee].variable_arguments);
  m.maker.call(m.main, callee, {m.p, m.q});
  const PointsTo points_to(m.solved());
  EXPECT_EQ(names_at(points_to, m.maker.parameter(callee, 0)), Names{"object"});
  EXPECT_EQ(names_at(points_to, argument), Names{"box"});
}

TEST(PointsTo, AnIndirectCallReachesFunctionsOfItsShape) {
  Main m;
  const Id one = m.maker.function("one", 1), two = m.maker.function("two", 2);
  const Id target = m.maker.pointer();
  m.maker.copy(m.main, m.maker.address_of_function(m.main, one), target);
  m.maker.copy(m.main, m.maker.address_of_function(m.main, two), target);
  m.maker.call_by(m.main, target, {m.p});
  const PointsTo points_to(m.solved());
  ASSERT_EQ(points_to.targets().size(), 1);
  EXPECT_EQ(points_to.targets()[0].function, one);
  EXPECT_EQ(names_at(points_to, m.maker.parameter(one, 0)), Names{"object"});
  EXPECT_EQ(names_at(points_to, m.maker.parameter(two, 0)), Names{});
}

TEST(PointsTo, CallbacksGetWhatTheAnnotationSays) {
  Main m;
  const Id thread = m.maker.function("thread", 1), compare = m.maker.function("compare", 2);
  const Id f = m.maker.address_of_function(m.main, thread), g = m.maker.address_of_function(m.main, compare);
  m.maker.call(m.main, m.maker.declared("pthread_create"), {m.maker.pointer(), m.maker.pointer(), f, m.p});
  m.maker.call(m.main, m.maker.declared("qsort"), {m.q, m.maker.pointer(), m.maker.pointer(), g});
  m.maker.returns(thread, m.maker.parameter(thread, 0));
  const Id at = m.maker.address(m.main, m.other);
  m.maker.call(m.main, m.maker.declared("pthread_join"), {m.maker.pointer(), at});
  const Id joined = m.maker.load(m.main, at);
  const PointsTo points_to(m.solved());
  EXPECT_EQ(names_at(points_to, m.maker.parameter(thread, 0)), Names{"object"});
  EXPECT_EQ(names_at(points_to, m.maker.parameter(compare, 1)), Names{"box"});
  EXPECT_EQ(names_at(points_to, joined), Names{"object"});
}

TEST(PointsTo, AnUnknownFunctionMayWriteAllThatItReaches) {
  Main m;
  m.maker.store(m.main, m.p, m.q);  // object -> box -> other
  m.maker.store(m.main, m.q, m.maker.address(m.main, m.other));
  const Id seen = m.maker.function("seen", 1);
  const Id unknown = m.maker.declared("nobody_knows_me");
  m.maker.call(m.main, unknown, {m.p, m.maker.address_of_function(m.main, seen)});
  const Id again = m.maker.call(m.main, unknown, {});  // it has kept them
  const Id deep = m.maker.load(m.main, m.maker.address(m.main, m.other));
  const PointsTo points_to(m.solved());
  for (const Id each : {again, deep, m.maker.parameter(seen, 0)}) {
    const Names names = names_at(points_to, each);
    for (const char* name : {"object", "box", "other"}) EXPECT_TRUE(names.contains(name)) << name;
  }
  ASSERT_EQ(points_to.unknown_functions().size(), 1);
  EXPECT_EQ(points_to.unknown_functions().begin()->second, 2);
  size_t writes = 0;
  for (const PointsTo::Effect& each : points_to.effects())
    writes += each.unknown && points_to.points(each.pointer).count() >= 3;
  EXPECT_EQ(writes, 2);
}

TEST(PointsTo, AWrapperOfMallocMakesOneObjectForEachCall) {
  Main m;
  const Id wrapper = m.maker.function("wrapper", 1), outer = m.maker.function("outer", 1),
           user = m.maker.function("user");
  m.maker.returns(wrapper, m.maker.call(wrapper, m.maker.declared("malloc"), {m.maker.parameter(wrapper, 0)}));
  m.maker.returns(outer, m.maker.call(outer, wrapper, {m.maker.parameter(outer, 0)}));
  const Id a = m.maker.call(m.main, outer, {m.maker.pointer()}), b = m.maker.call(m.main, outer, {m.maker.pointer()});
  const Id c = m.maker.call(user, wrapper, {m.maker.pointer()});
  const PointsTo points_to(m.solved());
  for (const Id each : {a, b, c}) EXPECT_EQ(points_to.points(kNone, each).count(), 1);
  EXPECT_FALSE(points_to.points(kNone, a).intersects(points_to.points(kNone, b)));
  EXPECT_FALSE(points_to.points(kNone, a).intersects(points_to.points(kNone, c)));
}

TEST(PointsTo, AVariableOfALibraryPointsToItsMemory) {
  Main m;
  const Id known = m.maker.variable("stdout", Linkage::declared),
           unknown = m.maker.variable("mystery", Linkage::declared);
  const Id a = m.maker.load(m.main, m.maker.address(m.main, known)),
           b = m.maker.load(m.main, m.maker.address(m.main, unknown));
  const PointsTo points_to(m.solved());
  EXPECT_EQ(names_at(points_to, a), Names{"own stdio"});
  EXPECT_TRUE(names_at(points_to, b).contains("mystery"));
}

TEST(PointsTo, RunsOfRandomProgramsAreAsPredicted) {
  size_t checks = 0, contexts = 0;
  for (uint32_t seed = 0; seed < 1500; seed++) {
    std::mt19937 random(seed);
    const Facts facts = testing::random_program(random, 2 + seed % 8);
    const PointsTo points_to(facts, described());
    testing::Interpreter interpreter(facts, points_to, random);
    ASSERT_EQ(interpreter.run(), "") << "seed " << seed;
    checks += interpreter.checks();
    contexts += points_to.contexts().contexts().size();
  }
  EXPECT_GT(checks, 100'000);
  EXPECT_GT(contexts, 300);
}

}  // namespace
}  // namespace friday::cut
