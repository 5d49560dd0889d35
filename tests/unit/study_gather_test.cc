// What a recording says of what was said in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/study/talk.h"
#include "tests/unit/trace_world.h"

namespace friday {
namespace {

using testing::connect_streams;
using ::testing::HasSubstr;
using testing::inet;
using ::testing::Not;
using testing::Script;
using testing::World;

// "0 sends `hello` (5) to 1", a line for each event, in their order.
std::string said(const World& world, const std::string& scope = "") {
  const auto talk = Talk::of(*world.opened, {}, scope);
  if (!talk) return describe(talk.error());
  std::string lines;
  for (const TalkEvent& event : talk->events) {
    const std::string text = event.text == TalkEvent::kUnknown ? "?" : talk->texts[event.text];
    const std::string other = event.partner == TalkEvent::kOutside ? "outside" : talk->roles[event.partner];
    lines += fmt::format("{} {} `{}` ({}) {} {}\n", event.node, event.sent ? "sends" : "receives", text, event.length,
                         event.sent ? "to" : "from", other);
  }
  return lines;
}

struct Pair {
  Script client{0}, server{1};
  Pair() { connect_streams(client, server); }
  std::string said() { return friday::said(World({&client, &server})); }
  // What a node is called.
  std::string name(uint32_t node) {
    const World world({&client, &server});
    return world.opened->find(NodeId{node})->name;
  }
};

TEST(Gather, TwoMessagesInOneReceive) {
  Pair pair;
  pair.client.send(100, 1, "first ");
  pair.client.send(200, 1, "second");
  pair.server.receive(300, 1, "first second");
  const std::string zero = pair.name(0), one = pair.name(1);
  EXPECT_EQ(pair.said(), fmt::format("0 sends `first ` (6) to {1}\n0 sends `second` (6) to {1}\n"
                                     "1 receives `first ` (6) from {0}\n1 receives `second` (6) from {0}\n",
                                     zero, one));
}

TEST(Gather, CommandsOfRespInOneSendAreMessagesOfTheirOwn) {
  Pair pair;
  const std::string get = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n5\r\n6\r\n";
  pair.client.send(100, 1, get + set + get);
  pair.server.receive(200, 1, get + set.substr(0, 3));
  pair.server.receive(300, 1, set.substr(3) + get);
  pair.server.send(400, 1, "$-1\r\n+OK\r\n:7\r\n");
  pair.client.receive(500, 1, "$-1\r\n+OK\r\n:7\r\n");
  const World world({&pair.client, &pair.server});
  const auto talk = Talk::of(*world.opened);
  ASSERT_TRUE(talk);
  std::vector<std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>> events;  // node, event, length, sent
  for (const TalkEvent& each : talk->events) events.emplace_back(each.node, each.event, each.length, each.sent);
  const size_t g = get.size(), s = set.size();
  EXPECT_EQ(events, (std::vector<std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>>{{0, 0, g, 1},
                                                                                     {0, 0, s, 1},
                                                                                     {0, 0, g, 1},
                                                                                     {1, 0, g, 0},
                                                                                     {1, 1, s, 0},
                                                                                     {1, 1, g, 0},
                                                                                     {1, 2, 5, 1},
                                                                                     {1, 2, 5, 1},
                                                                                     {1, 2, 4, 1},
                                                                                     {0, 1, 5, 0},
                                                                                     {0, 1, 5, 0},
                                                                                     {0, 1, 4, 0}}));
  EXPECT_EQ(talk->texts[talk->events[1].text], set);
  EXPECT_EQ(talk->events[1].message, talk->events[4].message);
}

TEST(Gather, OneMessageInThreeReceivesHasComeWithTheLast) {
  Pair pair;
  pair.client.send(100, 1, "abcdefghi");
  pair.server.receive(200, 1, "abc");
  pair.server.receive(300, 1, "def");
  pair.server.plain(350);
  pair.server.receive(400, 1, "ghi");
  const World world({&pair.client, &pair.server});
  const auto talk = Talk::of(*world.opened);
  ASSERT_TRUE(talk);
  ASSERT_EQ(talk->events.size(), 2u);
  EXPECT_EQ(talk->events[1].event, 3u);
  EXPECT_EQ(talk->texts[talk->events[1].text], "abcdefghi");
  EXPECT_EQ(talk->events[0].message, talk->events[1].message);
}

TEST(Gather, WhatWasUnderWayAtTheEndWasNotReceived) {
  Pair pair;
  pair.client.send(100, 1, "all of it");
  pair.server.receive(200, 1, "all of it");
  pair.client.send(300, 1, "half of it is received");
  pair.server.receive(400, 1, "half of it");
  pair.client.send(500, 1, "none of it is");
  const std::string zero = pair.name(0), one = pair.name(1);
  EXPECT_EQ(pair.said(), fmt::format("0 sends `all of it` (9) to {1}\n1 receives `all of it` (9) from {0}\n"
                                     "0 sends `?` (22) to {1}\n0 sends `?` (13) to {1}\n",
                                     zero, one));
}

TEST(Gather, SomebodyWhoWasNotRecordedIsOutside) {
  Script server(0);
  server.channel(1, format::kChannelStream, 5, inet("127.0.0.1", 80), inet("127.0.0.1", 40000));
  server.receive(100, 1, "GET /");
  server.send(200, 1, "404");
  EXPECT_EQ(said(World({&server})), "0 receives `GET /` (5) from outside\n0 sends `?` (3) to outside\n");
}

TEST(Gather, WhatAProcessSaysToItselfIsNoMessage) {
  Script loop(0);
  loop.channel(1, format::kChannelPipe, 5, {}, {}, 77);
  loop.send(100, 1, "!");
  loop.receive(200, 1, "!");
  loop.channel(2, format::kChannelStream, 6, inet("127.0.0.1", 80), inet("127.0.0.1", 40000));
  loop.channel(3, format::kChannelStream, 7, inet("127.0.0.1", 40000), inet("127.0.0.1", 80));
  loop.send(300, 2, "wake");
  loop.receive(400, 3, "wake");
  EXPECT_EQ(said(World({&loop})), "");
}

// A server asks a third one because of what it has received last.
TEST(Gather, OnlyWhatDescendsFromOneProgram) {
  Script asker(0), other(1), server(2), back(3);
  const auto connect = [](Script& client, Script& to, const char* address, uint64_t number, uint16_t port) {
    const int fd = static_cast<int>(number) + 4;
    client.channel(number, format::kChannelStream, fd, inet("127.0.0.1", port), inet(address, 80));
    to.channel(number, format::kChannelStream, fd, inet(address, 80), inet("127.0.0.1", port));
  };
  connect(asker, server, "127.0.0.1", 1, 40001);
  connect(other, server, "127.0.0.1", 2, 40002);
  connect(server, back, "127.0.0.2", 3, 40003);
  connect(server, back, "127.0.0.2", 4, 40004);
  server.send(10, 3, "hello");  // on a connection that descends later
  back.receive(20, 3, "hello");
  other.send(100, 2, "noise");
  server.receive(110, 2, "noise");
  server.send(120, 4, "ask for noise");
  back.receive(130, 4, "ask for noise");
  asker.send(200, 1, "work");
  server.receive(210, 1, "work");
  server.send(220, 3, "ask for work");
  back.receive(230, 3, "ask for work");
  other.send(300, 2, "more noise");
  server.receive(310, 2, "more noise");
  server.send(320, 2, "noisy");
  other.receive(330, 2, "noisy");
  back.send(400, 3, "done");
  server.receive(410, 3, "done");
  server.send(420, 1, "all is done");
  asker.receive(430, 1, "all is done");
  const World world({&asker, &other, &server, &back});
  const auto name = [&](uint32_t node) { return role_of(world.opened->find(NodeId{node})->name); };
  const std::string all = said(world), some = said(world, name(0));
  for (const char* text : {"hello", "work", "ask for work", "done", "all is done"})
    EXPECT_THAT(some, HasSubstr(fmt::format("`{}`", text)));
  EXPECT_THAT(some, Not(HasSubstr("nois")));
  EXPECT_THAT(all, HasSubstr("`ask for noise`"));
  EXPECT_THAT(said(world, "nobody"), HasSubstr("has no node nobody"));
}

TEST(Gather, DatagramsDescendOneByOne) {
  Script asker(0), server(1), back(2);
  const auto at = [](uint8_t host) { return inet(fmt::format("10.0.0.{}", host).c_str(), 7000); };
  uint8_t host = 1;
  for (Script* each : {&asker, &server, &back}) {
    each->channel(1, format::kChannelDatagram, 3, at(host++), {});
    each->datagrams[1] = true;
  }
  const auto to_server = at(2), to_back = at(3), from_asker = at(1);
  server.send(10, 1, "beat", &to_back);
  back.receive(20, 1, "beat", &to_server);
  asker.send(100, 1, "work", &to_server);
  server.receive(110, 1, "work", &from_asker);
  server.send(120, 1, "ask", &to_back);
  back.receive(130, 1, "ask", &to_server);
  const World world({&asker, &server, &back});
  const std::string some = said(world, role_of(world.opened->find(NodeId{0})->name));
  EXPECT_THAT(some, HasSubstr("`ask`"));
  EXPECT_THAT(some, Not(HasSubstr("`beat`")));
}

TEST(Gather, WhatWasOnlyLookedAtIsReceivedOnce) {
  Pair pair;
  pair.client.send(100, 1, "look");
  pair.server.receive(200, 1, "look", nullptr, format::kPeek);
  pair.server.receive(300, 1, "look");
  const World world({&pair.client, &pair.server});
  const auto talk = Talk::of(*world.opened);
  ASSERT_TRUE(talk);
  ASSERT_EQ(talk->events.size(), 2u);
  EXPECT_EQ(talk->events[1].event, 1u);
}

TEST(Gather, ADatagramToManyIsOneMessage) {
  std::vector<std::unique_ptr<Script>> nodes;
  for (uint8_t n = 0; n < 3; n++) {
    nodes.push_back(std::make_unique<Script>(n));
    nodes[n]->channel(1, format::kChannelDatagram, 3, inet("0.0.0.0", 7000), {});
    nodes[n]->datagrams[1] = true;
  }
  const auto everyone = inet("224.0.0.5", 7000), first = inet("10.0.0.1", 7000);
  nodes[0]->send(100, 1, "hello to everybody", &everyone);
  nodes[1]->receive(200, 1, "hello to everybody", &first);
  nodes[2]->receive(300, 1, "hello to everybody", &first);
  nodes[1]->receive(400, 1, "", &first);  // empty, and from somebody else
  const World world({nodes[0].get(), nodes[1].get(), nodes[2].get()});
  const auto talk = Talk::of(*world.opened);
  ASSERT_TRUE(talk);
  ASSERT_EQ(talk->events.size(), 4u);
  for (size_t i : {1, 2}) {
    EXPECT_EQ(talk->events[i].message, talk->events[0].message);
    EXPECT_EQ(talk->texts[talk->events[i].text], "hello to everybody");
  }
  EXPECT_EQ(talk->events[3].length, 0u);
}

}  // namespace
}  // namespace friday
