// Files of facts: what is written is read, and damage is found. Programs of several modules are joined as a linker
// does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "core/base/files.h"
#include "core/base/scratch.h"
#include "core/cut/facts_check.h"
#include "tests/unit/cut_support.h"

namespace friday::cut {
namespace {

using testing::ProgramMaker;

std::string text_of(const Facts& facts, const std::string& path) {
  EXPECT_TRUE(write_facts(facts, path));
  return read_file(path).value_or("");
}

TEST(FactsFile, WhatIsWrittenIsRead) {
  auto scratch = ScratchDirectory::make();
  ASSERT_TRUE(scratch);
  const std::string path = scratch->path() + "/a.facts", again = scratch->path() + "/b.facts";
  for (uint32_t seed = 0; seed < 300; seed++) {
    std::mt19937 random(seed);
    Facts facts = testing::random_module(random, 1 + seed % 9);
    facts.unseen.push_back({0, 7, "assembler text"});
    facts.aliases.push_back({"other", Linkage::weak, 0, kNone});
    if (seed % 2 == 0) facts = testing::random_program(random, 5);
    const std::string text = text_of(facts, path);
    const auto read = read_facts(path);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(text_of(*read, again), text) << "seed " << seed;
    ASSERT_EQ(read->flows, facts.flows);
  }
}

// The hash in the header is made good, so that the damage gets as far as possible.
TEST(FactsFile, DamageIsFoundOrHarmless) {
  auto scratch = ScratchDirectory::make();
  ASSERT_TRUE(scratch);
  const std::string path = scratch->path() + "/a.facts";
  size_t refused = 0;
  for (uint32_t seed = 0; seed < 2000; seed++) {
    std::mt19937 random(seed);
    std::string text = text_of(testing::random_module(random, 1 + seed % 5), path);
    for (size_t changes = 1 + random() % 4; changes > 0; changes--) {
      const size_t at = random() % 5 == 0 ? random() % text.size() : 32 + random() % (text.size() - 32);
      if (random() % 8 == 0) text.resize(std::max<size_t>(at, 40));
      else if (random() % 8 == 0) text.insert(at, 1 + random() % 3, static_cast<char>(random()));
      else text[at] = static_cast<char>(random());
      if (text.size() <= 40) break;
    }
    const uint64_t size = text.size() - 32, hash = XXH3_64bits(text.data() + 32, size);
    memcpy(text.data() + 16, &size, 8);
    memcpy(text.data() + 24, &hash, 8);
    ASSERT_TRUE(write_file_atomically(path, text));
    const auto read = read_facts(path);
    if (read) {
      EXPECT_TRUE(check_facts(*read));
    } else {
      refused++;
      EXPECT_FALSE(read.error().message.empty());
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(FactsFile, TheHashFindsOneBit) {
  auto scratch = ScratchDirectory::make();
  std::mt19937 random(1);
  const std::string path = scratch->path() + "/a.facts";
  std::string text = text_of(testing::random_module(random, 3), path);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  ASSERT_TRUE(write_file_atomically(path, text));
  const auto read = read_facts(path);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("damaged"), std::string::npos) << read.error().message;
}

Id named(const Facts& facts, std::string_view name) {
  for (Id i = 0; i < facts.functions.size(); i++)
    if (facts.functions[i].name == name) return i;
  return kNone;
}

struct Pair {
  ProgramMaker one, other;
  Pair() { other.facts.module = "other.c", other.facts.fingerprint = std::string(32, 'b'); }
  auto linked() { return link_with_ids("program", {one.facts, other.facts}); }
};

TEST(Link, AStrongDefinitionReplacesAWeakOne) {
  Pair pair;
  const Id weak = pair.one.function("f", 1, Linkage::weak);
  pair.one.load(weak, pair.one.parameter(weak, 0));
  const Id caller = pair.one.function("caller");
  pair.one.call(caller, weak, {});
  const Id strong = pair.other.function("f", 1);
  pair.other.load(strong, pair.other.parameter(strong, 0));
  const auto linked = pair.linked();
  ASSERT_TRUE(linked) << linked.error().message;
  const Facts& facts = linked->facts;
  ASSERT_EQ(facts.functions.size(), 2);
  EXPECT_EQ(facts.functions[named(facts, "f")].place.file, "/src/other.c" + std::string());
  EXPECT_EQ(facts.calls[0].callee, named(facts, "f"));
  EXPECT_EQ(facts.accesses.size(), 1);
  EXPECT_EQ(facts.blocks.size(), 3);
  EXPECT_EQ(facts.blocks[0].function, kNone);  // of the weak one, which a profile counts under its number
  EXPECT_EQ(linked->ids[0].functions[weak], linked->ids[1].functions[strong]);
  EXPECT_EQ(linked->ids[0].accesses, std::vector<Id>{kNone});
  EXPECT_EQ(linked->ids[1].accesses, std::vector<Id>{0});
}

TEST(Link, TwoStrongDefinitionsAreAnErrorThatNamesBoth) {
  Pair pair;
  pair.one.function("f");
  pair.other.function("f");
  const auto linked = pair.linked();
  ASSERT_FALSE(linked);
  for (const char* part : {"f ", "program.c", "other.c"})
    EXPECT_NE(linked.error().message.find(part), std::string::npos) << linked.error().message;
}

TEST(Link, AnAliasLeadsToItsFunctionFromOtherModules) {
  Pair pair;
  const Id behind = pair.one.function("behind", 0, Linkage::internal);
  pair.one.facts.aliases.push_back({"name", Linkage::strong, behind, kNone});
  const Id declared = pair.other.declared("name"), caller = pair.other.function("caller");
  pair.other.call(caller, declared, {});
  const auto linked = pair.linked();
  ASSERT_TRUE(linked) << linked.error().message;
  EXPECT_EQ(linked->facts.calls[0].callee, named(linked->facts, "behind"));
  EXPECT_EQ(named(linked->facts, "name"), kNone);
}

TEST(Link, AFunctionAndAVariableOfOneNameDoNotGoTogether) {
  Pair pair;
  pair.one.function("thing");
  pair.other.variable("thing");
  EXPECT_FALSE(pair.linked());
}

TEST(Link, InternalFunctionsOfOneNameStayApart) {
  Pair pair;
  pair.one.function("f", 0, Linkage::internal);
  pair.other.function("f", 0, Linkage::internal);
  const auto linked = pair.linked();
  ASSERT_TRUE(linked);
  EXPECT_EQ(linked->facts.functions.size(), 2);
}

TEST(Link, RandomModulesMakeProgramsThatHold) {
  for (uint32_t seed = 0; seed < 300; seed++) {
    std::mt19937 random(seed);
    std::vector<Facts> modules;
    for (uint32_t m = 0; m < 3; m++) {
      modules.push_back(testing::random_module(random, 6));
      modules[m].module = "m" + std::to_string(m);
      modules[m].fingerprint = std::string(32, static_cast<char>('a' + m));
      for (Function& each : modules[m].functions)
        if (each.linkage == Linkage::strong) each.linkage = random() % 3 == 0 ? Linkage::internal : Linkage::weak;
      for (Object& each : modules[m].objects)
        if (each.linkage == Linkage::strong) each.linkage = Linkage::weak;
    }
    const auto linked = link_with_ids("program", modules);
    ASSERT_TRUE(linked) << linked.error().message;
    ASSERT_TRUE(check_facts(linked->facts));
    for (size_t m = 0; m < modules.size(); m++) {
      for (size_t i = 0; i < modules[m].accesses.size(); i++)
        if (const Id id = linked->ids[m].accesses[i]; id != kNone) {
          ASSERT_EQ(linked->facts.accesses[id].function, linked->ids[m].functions[modules[m].accesses[i].function]);
        }
      for (size_t i = 0; i < modules[m].functions.size(); i++)
        ASSERT_EQ(linked->facts.functions[linked->ids[m].functions[i]].name, modules[m].functions[i].name);
    }
  }
}

}  // namespace
}  // namespace friday::cut
