// Which nodes are recorded, by the rules in the file of switches.
#include "core/trace/switches.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/trace_support.h"

namespace friday {
namespace {

bool records(const Switches& switches, std::vector<std::string> names) {
  return switches.of(names) == Keeps::everything;
}

TEST(Switches, TheLastRuleDecides) {
  Switches switches;
  EXPECT_FALSE(records(switches, {"a"}));
  switches.set("*", Keeps::everything);
  EXPECT_TRUE(records(switches, {"a"}));
  switches.set("a", Keeps::nothing);
  EXPECT_FALSE(records(switches, {"a"}));
  EXPECT_TRUE(records(switches, {"b"}));
  switches.set("a*", Keeps::everything);
  EXPECT_TRUE(records(switches, {"a"}));
  switches.set("a", Keeps::nothing);
  EXPECT_FALSE(records(switches, {"a"}));
  switches.set("*", Keeps::everything);
  EXPECT_TRUE(records(switches, {"a"}));
}

TEST(Switches, ChildrenFollowTheirAncestors) {
  Switches switches;
  switches.set("server", Keeps::everything);
  EXPECT_TRUE(records(switches, {"server", "server/child-1"}));
  EXPECT_FALSE(records(switches, {"other", "other/child-1"}));
  switches.set("server/child-1", Keeps::nothing);
  EXPECT_FALSE(records(switches, {"server", "server/child-1"}));
  EXPECT_TRUE(records(switches, {"server", "server/child-2"}));
}

TEST(Switches, AFile) {
  const testing::TemporaryRecording directory;
  const std::string recording = directory.path();
  auto none = Switches::read(recording);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  Switches switches;
  switches.set("*", Keeps::everything);
  switches.set("a \"b\"", Keeps::nothing);
  ASSERT_TRUE(switches.write(recording));
  auto read = Switches::read(recording);
  ASSERT_TRUE(read);
  EXPECT_FALSE(records(*read, {"a \"b\""}));
  EXPECT_TRUE(records(*read, {"c"}));
  Switches::remove(recording);
  EXPECT_FALSE(Switches::read(recording));
}

TEST(Switches, ADamagedFile) {
  for (const char* text :
       {"", "[]", "{}", "{\"rules\": 1}", "{\"rules\": [1]}",
        "{\"rules\": [{\"nodes\": 1, \"keeps\": \"everything\"}]}", "{\"rules\": [{\"nodes\": \"a\"}]}",
        "{\"rules\": [{\"nodes\": \"a\", \"keeps\": \"all\"}]}"}) {
    const testing::TemporaryRecording directory;
    std::ofstream(directory.path() + "/switches.json") << text;
    const auto read = Switches::read(directory.path());
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::bad_input) << text;
  }
}

}  // namespace
}  // namespace friday
