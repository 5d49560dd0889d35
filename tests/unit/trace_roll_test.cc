// What a recorder notes of the nodes that it leaves, and what is missed later.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "core/trace/roll.h"

namespace friday {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class Rolls : public testing::Test {
 protected:
  Rolls() { fs::remove_all(root_); }
  ~Rolls() override { fs::remove_all(root_); }
  void make(uint32_t id) const { fs::create_directories(root_ / "nodes" / std::to_string(id)); }
  void remove(uint32_t id) const { fs::remove_all(root_ / "nodes" / std::to_string(id)); }
  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const RolledNode& node : missing_nodes(root_)) names.push_back(node.name);
    return names;
  }
  const fs::path root_ = fs::path(testing::TempDir()) / "friday-rolls";
};

TEST_F(Rolls, WhatIsRemovedLaterIsMissed) {
  for (uint32_t id : {0u, 1u, 2u}) make(id);
  ASSERT_TRUE(write_roll(root_, "one", {{NodeId{0}, "a"}, {NodeId{1}, "b"}, {NodeId{7}, "gone before"}}));
  ASSERT_TRUE(write_roll(root_, "two", {{NodeId{2}, "c"}}));
  EXPECT_THAT(missing(), IsEmpty());
  remove(1);
  remove(2);
  EXPECT_THAT(missing(), ElementsAre("b", "c"));
  EXPECT_THAT(missing_text(missing_nodes(root_)), testing::StartsWith("nodes 1 (b), 2 (c) were recorded"));
}

TEST_F(Rolls, WhatIsRemovedOnPurposeIsNot) {
  for (uint32_t id : {0u, 1u}) make(id);
  ASSERT_TRUE(write_roll(root_, "one", {{NodeId{0}, "a"}, {NodeId{1}, "b"}}));
  remove(0);
  remove(1);
  ASSERT_TRUE(strike_from_rolls(root_, {"0", "5"}));
  EXPECT_THAT(missing(), ElementsAre("b"));
}

TEST_F(Rolls, ARecordingWithoutOneOrWithADamagedOneClaimsNothing) {
  make(0);
  EXPECT_THAT(missing(), IsEmpty());
  fs::create_directories(root_ / "roll");
  std::ofstream(root_ / "roll" / "x.json") << R"({"-1": "a", "99999999999": "b", "3": 4, "x": "c"})";
  std::ofstream(root_ / "roll" / "y.json") << "{";
  EXPECT_THAT(missing(), IsEmpty());
  EXPECT_EQ(missing_text({}), "");
}

}  // namespace
}  // namespace friday
