// Group files: what each key becomes, and what is refused with a place and a reason.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/unit/record_group_support.h"

namespace friday {
namespace {

constexpr char kNode[] = "[[node]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n";

TEST(GroupFile, HoldsEveryKey) {
  auto group = parse(R"(
[group]
stop_after = 2.5
stop_when_ends = "two"
[[node]]
name = "one"
command = ["./server", "--port", "7000"]
cwd = "/tmp"
env = { A = "1", B = "with space" }
start_delay = 1
stdout = "one.out"
stderr = "one.err"
stop_signal = "SIGINT"
[[node]]
name = "two"
command = ["client"]
record = false
)");
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->stop_after, 2.5);
  EXPECT_EQ(group->stop_when_ends, "two");
  ASSERT_EQ(group->programs.size(), 2u);
  const ProgramSpec& one = group->programs[0];
  EXPECT_EQ(one.name, "one");
  EXPECT_THAT(one.command, testing::ElementsAre("./server", "--port", "7000"));
  EXPECT_EQ(one.cwd, "/tmp");
  EXPECT_THAT(one.environment, testing::ElementsAre(testing::Pair("A", "1"), testing::Pair("B", "with space")));
  EXPECT_EQ(one.start_delay, 1);
  EXPECT_EQ(one.output, "one.out");
  EXPECT_EQ(one.errors, "one.err");
  EXPECT_EQ(one.stop_signal, SIGINT);
  EXPECT_TRUE(one.record);
  const ProgramSpec& two = group->programs[1];
  EXPECT_FALSE(two.record);
  EXPECT_EQ(two.stop_signal, SIGTERM);
  EXPECT_EQ(two.start_delay, 0);
  EXPECT_TRUE(two.output.empty() && two.cwd.empty() && two.environment.empty());
}

TEST(GroupFile, KeepsTheOrderOfNodes) {
  std::string text;
  for (int i = 0; i < 30; i++) text += fmt::format("[[node]]\nname = \"n{}\"\ncommand = [\"x\"]\n", 29 - i);
  auto group = parse(text);
  ASSERT_TRUE(group);
  for (int i = 0; i < 30; i++) EXPECT_EQ(group->programs[static_cast<size_t>(i)].name, fmt::format("n{}", 29 - i));
}

TEST(GroupFile, OrdersStartsAndEnds) {
  auto group = parse(R"(
[group]
linger = 0.5
stop_order = ["client", "proxy"]
[[node]]
name = "server"
command = ["x"]
ready = "port {port:s}"
ready_timeout = 5
stdin = "in"
[[node]]
name = "proxy"
command = ["x"]
stdout = "out"
ready = "output listening on [0-9]+"
[[node]]
name = "client"
command = ["x"]
after = ["server"]
[[node]]
name = "last"
command = ["x"]
[[event]]
at = 4.5
kill = "proxy"
[[event]]
at = 1
stop = ["server", "proxy"]
[[event]]
at = 2
continue = ["server", "proxy"]
[[event]]
at = 6
restart = "proxy"
)");
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->linger, 0.5);
  EXPECT_THAT(group->stop_order, testing::ElementsAre("client", "proxy"));
  EXPECT_EQ(group->programs[0].input, "in");
  EXPECT_EQ(group->programs[0].ready_timeout, 5);
  EXPECT_TRUE(group->programs[0].after.empty());
  EXPECT_THAT(group->programs[1].after, testing::ElementsAre("server"));  // which says when it is ready
  EXPECT_THAT(group->programs[2].after, testing::ElementsAre("server"));
  EXPECT_THAT(group->programs[3].after, testing::ElementsAre("server", "proxy"));
  std::string events;
  for (const EventSpec& event : group->events)
    events += fmt::format("{} {} {}; ", event.at, name_of(event.action), event.programs.size());
  EXPECT_EQ(events, "1 stop 2; 2 continue 2; 4.5 kill 1; 6 restart 1; ");
}

TEST(GroupFile, RefusesOrdersThatCannotBe) {
  const std::string node = kNode, two = "[[node]]\nname = \"b\"\ncommand = [\"x\"]\n";
  EXPECT_THAT(refusal(node + "ready = \"soon\"\n"), testing::StartsWith(":4: ready: \"soon\" does not say"));
  EXPECT_THAT(refusal(node + "ready = \"port 70000\"\n"), testing::HasSubstr("does not say"));
  EXPECT_THAT(refusal(node + "stdout = \"o\"\nready = \"output (\"\n"), testing::HasSubstr("no regular expression"));
  EXPECT_THAT(refusal(node + "ready = \"output up\"\n"), testing::HasSubstr("add stdout or stderr"));
  EXPECT_THAT(refusal(node + "after = [\"c\"]\n"), testing::HasSubstr("after of a names c"));
  EXPECT_THAT(refusal(node + "after = [\"a\"]\n"), testing::HasSubstr("node a would wait for itself"));
  EXPECT_THAT(refusal(node + "after = [\"b\"]\n" + two + "after = [\"a\"]\n"),
              testing::HasSubstr("would wait for itself"));
  EXPECT_THAT(refusal("[group]\nstop_order = [\"c\"]\n" + node), testing::HasSubstr("stop_order names c"));
  EXPECT_THAT(refusal(node + "[[event]]\nat = 1\n"), testing::HasSubstr("says when and what"));
  EXPECT_THAT(refusal(node + "[[event]]\nkill = \"a\"\n"), testing::HasSubstr("says when and what"));
  EXPECT_THAT(refusal(node + "[[event]]\nat = 1\nkill = \"c\"\n"), testing::HasSubstr("an [[event]] names c"));
  EXPECT_THAT(refusal(node + "[[event]]\nat = 1\nfreeze = \"a\"\n"), testing::HasSubstr("unknown key \"freeze\""));
  EXPECT_THAT(refusal(node + "[[event]]\nat = 1\nkill = \"a\"\nstop = \"a\"\n"), testing::HasSubstr("does one thing"));
}

TEST(GroupFile, RefusesWithPlaceAndReason) {
  const std::string node = kNode;
  EXPECT_THAT(refusal(""), testing::HasSubstr("no [[node]] table"));
  EXPECT_THAT(refusal("[[node]]\nname = \n"), testing::StartsWith(":2: "));
  EXPECT_THAT(refusal(node + "name = \"b\"\n"), testing::StartsWith(":4: "));  // twice the same key
  EXPECT_THAT(refusal(node + "colour = 1\n"), testing::StartsWith(":4: unknown key \"colour\""));
  EXPECT_THAT(refusal(node + "cwd = 1\n"), testing::StartsWith(":4: cwd must be a string"));
  EXPECT_THAT(refusal(node + "env = \"A=1\"\n"), testing::StartsWith(":4: env must be a table"));
  EXPECT_THAT(refusal(node + "start_delay = -0.5\n"), testing::StartsWith(":4: start_delay must not be negative"));
  EXPECT_THAT(refusal(node + "start_delay = nan\n"), testing::StartsWith(":4: start_delay"));
  EXPECT_THAT(refusal(node + "start_delay = inf\n"), testing::StartsWith(":4: start_delay"));
  EXPECT_THAT(refusal(node + "record = \"yes\"\n"), testing::StartsWith(":4: record must be true or false"));
  EXPECT_THAT(refusal(node + "stop_signal = \"SEGV\"\n"), testing::StartsWith(":4: unknown stop_signal \"SEGV\""));
  EXPECT_THAT(refusal("[[node]]\nname = \"a\"\ncommand = []\n"), testing::StartsWith(":3: command must be a list"));
  EXPECT_THAT(refusal("[[node]]\nname = \"\"\ncommand = [\"x\"]\n"), testing::HasSubstr("cannot name a node"));
  EXPECT_THAT(refusal(node + node), testing::HasSubstr("two nodes are named a"));
  EXPECT_THAT(refusal("[group]\nstop_after = -1\n" + node), testing::StartsWith(":2: stop_after must not be negative"));
  EXPECT_THAT(refusal("[group]\nstop_when_ends = \"b\"\n" + node), testing::HasSubstr("stop_when_ends names b"));
  EXPECT_THAT(refusal("[[group]]\nstop_after = 1\n" + node), testing::StartsWith(":1: unknown entry \"group\""));
  EXPECT_THAT(refusal("[node]\nname = \"a\"\n"), testing::StartsWith(":1: unknown entry \"node\""));
}

TEST(GroupFile, RefusesNamesThatOtherNamesAreMadeOf) {
  // NAME/child-1 and NAME#2 are made by Friday; * ? , ! and blanks belong to node lists; digits alone are ids.
  for (const char* name : {"a/b", "a#2", "a*", "a,b", "!a", "a b", "7"})
    EXPECT_THAT(refusal(fmt::format("[[node]]\nname = \"{}\"\ncommand = [\"x\"]\n", name)),
                testing::HasSubstr("cannot name a node"))
        << name;
  for (const char* name : {"a", "redis-1", "n0", "7z", "g++", "python3.11", "under_score"})
    EXPECT_TRUE(parse(fmt::format("[[node]]\nname = \"{}\"\ncommand = [\"x\"]\n", name))) << name;
}

TEST(GroupFile, MustExist) {
  auto group = read_group("/absent/group.toml");
  ASSERT_FALSE(group);
  EXPECT_THAT(group.error().message, testing::HasSubstr("/absent/group.toml: No such file"));
}

}  // namespace
}  // namespace friday
