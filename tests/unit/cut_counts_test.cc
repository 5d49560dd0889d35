// Files of counts: they are added up, damage and stale profiles are named.
#include <gtest/gtest.h>

#include <random>

#include "core/base/files.h"
#include "core/base/scratch.h"
#include "tests/unit/cut_support.h"

namespace friday::cut {
namespace {

const std::string kOne(32, 'a'), kOther(32, 'b');

class CountsFiles : public ::testing::Test {
 protected:
  void SetUp() override { scratch_ = std::move(*ScratchDirectory::make()); }
  std::string path(const char* name) const { return scratch_.path() + "/" + name; }
  ScratchDirectory scratch_;
};

TEST_F(CountsFiles, RunsAreAddedUp) {
  ASSERT_TRUE(write_counts(path("1.counts"), kOne, {"program.c", {1, 2, UINT64_MAX}, {10}}));
  ASSERT_TRUE(write_counts(path("2.counts"), kOne, {"program.c", {3, 0, 5}, {7}}));
  ASSERT_TRUE(write_counts(path("3.counts"), kOther, {"", {}, {}}));
  ASSERT_TRUE(write_file_atomically(path("notes"), "not counted"));
  const auto counts = Counts::read(scratch_.path());
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->modules().at(kOne).blocks, (std::vector<uint64_t>{4, 2, UINT64_MAX}));
  EXPECT_EQ(counts->modules().at(kOne).lengths, (std::vector<uint64_t>{17}));
  EXPECT_TRUE(counts->modules().contains(kOther));
}

TEST_F(CountsFiles, ADirectoryWithoutCountsSaysWhatMakesThem) {
  const auto counts = Counts::read(scratch_.path());
  ASSERT_FALSE(counts);
  EXPECT_NE(counts.error().message.find("friday cut profile"), std::string::npos);
  EXPECT_FALSE(Counts::read(path("nothing")));
}

TEST_F(CountsFiles, DamageIsRefused) {
  ASSERT_TRUE(write_counts(path("1.counts"), kOne, {"program.c", {1, 2, 3}, {4}}));
  const std::string text = *read_file(path("1.counts"));
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 2000; i++) {
    std::string damaged = text;
    if (random() % 3 == 0) damaged.resize(random() % damaged.size());
    else damaged[random() % 72] = static_cast<char>(random());
    ASSERT_TRUE(write_file_atomically(path("1.counts"), damaged));
    const auto read = read_counts(path("1.counts"));
    EXPECT_TRUE(!read || damaged.size() == text.size());
  }
}

TEST_F(CountsFiles, OneFingerprintHasOneSize) {
  Counts counts;
  ASSERT_TRUE(counts.add(kOne, {"program.c", {1}, {}}));
  EXPECT_FALSE(counts.add(kOne, {"program.c", {1, 2}, {}}));
}

TEST_F(CountsFiles, AStaleProfileNamesTheModule) {
  testing::ProgramMaker one, other;
  one.function("f"), one.function("g");
  other.facts.module = "other.c", other.facts.fingerprint = kOther;
  other.function("h");
  other.facts.lengths = 1;
  const auto program = link("program", {one.facts, other.facts});
  ASSERT_TRUE(program);
  Counts counts;
  ASSERT_TRUE(counts.add(kOther, {"other.c", {5}, {6}}));
  const auto sum = counts_of(*program, counts);
  ASSERT_TRUE(sum) << sum.error().message;
  EXPECT_EQ(sum->blocks, (std::vector<uint64_t>{0, 0, 5}));
  EXPECT_EQ(sum->lengths, (std::vector<uint64_t>{6}));
  ASSERT_TRUE(counts.add(std::string(32, 'c'), {"program.c", {1, 1}, {}}));
  const auto stale = counts_of(*program, counts);
  ASSERT_FALSE(stale);
  EXPECT_NE(stale.error().message.find("program.c"), std::string::npos);
  EXPECT_NE(stale.error().message.find("another build"), std::string::npos) << stale.error().message;
  Counts wrong;
  ASSERT_TRUE(wrong.add(kOther, {"other.c", {5, 5}, {6}}));
  EXPECT_FALSE(counts_of(*program, wrong));
}

}  // namespace
}  // namespace friday::cut
