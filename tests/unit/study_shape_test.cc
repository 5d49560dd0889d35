// What is taken for the same message of a protocol, and what is kept of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/study/classes.h"
#include "core/study/reading.h"
#include "core/study/shape.h"
#include "core/study/talk.h"
#include "tests/unit/study_support.h"

namespace friday {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> values_of(const Shape& shape) {
  std::vector<std::string> values;
  for (const Field& field : shape.fields) values.push_back(field.value);
  return values;
}

TEST(Shape, ATextKeepsItsWordsAndNotItsNumbers) {
  const std::string text = "PUT f12 = 400\r\n";
  const Shape shape = shape_of(text, text.size());
  EXPECT_FALSE(shape.binary);
  EXPECT_EQ(shape.masked, "PUT f# = #");
  EXPECT_THAT(values_of(shape), ElementsAre("12", "400"));
  EXPECT_EQ(shape.fields[0].word, "f12");
  EXPECT_EQ(with_field(shape, 1), "PUT f# = 400");
  EXPECT_EQ(as_it_was(text, text.size()), "PUT f12 = 400");
}

TEST(Shape, CommandsOfRedisAreTheirWords) {
  const auto masked = [](const std::string& bytes) { return shape_of(bytes, bytes.size()).masked; };
  EXPECT_EQ(masked("*3\r\n$3\r\nSET\r\n$8\r\nprice:f1\r\n$3\r\n512\r\n"), "SET price:f# #");
  EXPECT_EQ(masked("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"), "PING; GET k");
  EXPECT_EQ(masked("$-1\r\n"), "(nil)");
  EXPECT_EQ(masked(":12\r\n"), "#");
  EXPECT_EQ(masked("-ERR no such key\r\n"), "ERR no such key");
  EXPECT_EQ(masked("*2\r\n$3\r\nGET\r\n$900\r\nthe first bytes"), "GET the first bytes");  // only these were kept
  EXPECT_EQ(masked("*x\r\nno RESP"), "*x no RESP");
  EXPECT_EQ(masked("$99999999999999999999\r\nno RESP"), "$# no RESP");
  EXPECT_EQ(masked("*1000000000\r\n*1000000000\r\n+so many\r\n"), "so many");
}

TEST(Shape, OfHttpTheHeadersDoNotCount) {
  const auto masked = [](const std::string& bytes) { return shape_of(bytes, bytes.size()).masked; };
  EXPECT_EQ(masked("GET /search?flight=f1 HTTP/1.1\r\nHost: x:80\r\n\r\n"), "GET /search?flight=f#");
  EXPECT_EQ(masked("HTTP/1.1 200 OK\r\nDate: Sun, 29 Nov\r\n\r\nf1 costs 5\n"), "# OK f# costs #");
  EXPECT_EQ(masked("HTTP/1.1 404 Not Found\r\nDate: Sun"), "# Not Found");
  EXPECT_EQ(masked("GET it\r\n"), "GET it");
}

TEST(Shape, AnIdIsOneField) {
  const std::string one = "session 9f8e7d6c5b4a3f2e1d ends", other = "session 0a1b2c3d4e5f60718293 ends";
  EXPECT_EQ(shape_of(one, one.size()).masked, "session # ends");
  EXPECT_EQ(shape_of(other, other.size()).masked, "session # ends");
}

TEST(Shape, ABinaryMessageIsItsLengthAndItsWords) {
  const char bytes[] = "\x03\0\0\0\x00\0\0\0\xff\xff\x01\0";
  const Shape shape = shape_of({bytes, 12}, 1200);
  EXPECT_TRUE(shape.binary);
  EXPECT_EQ(shape.masked, "# bytes: # # #");
  EXPECT_THAT(values_of(shape), ElementsAre("1200", "3", "0", "0x1ffff"));
  EXPECT_EQ(shape.fields[1].word, "");
  EXPECT_EQ(shape.fields[3].word, "0x1ffff");
}

TEST(Shape, OfAnUnknownMessageOnlyTheLengthIsKnown) { EXPECT_THAT(values_of(shape_of("", 77)), ElementsAre("77")); }

TEST(Talk, ARoleHasNoNumbersOfStartsAndChildren) {
  EXPECT_EQ(role_of("redis-1"), "redis-1");
  EXPECT_EQ(role_of("redis-1#2"), "redis-1");
  EXPECT_EQ(role_of("web#3/child-17/child-2"), "web/child/child");
  EXPECT_EQ(role_of("sh/exec-1"), "sh/exec");
  EXPECT_EQ(role_of("c#/child-"), "c#/child-");
}

class TalkFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/friday-talk-XXXXXX";
    directory_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

TEST_F(TalkFile, ComesBackAsItWas) {
  testing::TalkScript script;
  const uint32_t web = script.node("web"), cache = script.node("cache");
  script.say(web, cache, "GET k1");
  script.say(std::nullopt, web, std::string("\0binary\xff", 8));
  const Talk talk = script.run(1, false).talk;
  const Beneath file(directory_, "messages/run-1");
  ASSERT_TRUE(make_directory_beneath(Beneath(directory_, "messages")));
  ASSERT_TRUE(talk.write(file));
  const auto back = Talk::read(file);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->roles, talk.roles);
  EXPECT_EQ(back->texts, talk.texts);
  ASSERT_EQ(back->events.size(), talk.events.size());
  EXPECT_EQ(back->events[2].partner, TalkEvent::kOutside);
  EXPECT_EQ(back->events[1].message, talk.events[1].message);
}

TEST_F(TalkFile, ThatIsDamagedIsNotRead) {
  testing::TalkScript script;
  const uint32_t web = script.node("web"), cache = script.node("cache");
  for (int i = 0; i < 5; i++) script.say(web, cache, fmt::format("GET k{}", i));
  const std::string path = directory_ + "/run-1";
  ASSERT_TRUE(script.run(1, false).talk.write(Beneath(directory_, "run-1")));
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_FALSE(Talk::read(Beneath(directory_, "run-1"))) << at;
  }
  Talk wrong = script.run(1, false).talk;  // of no sense, so it is not even written
  wrong.events[0].text = 1000;
  EXPECT_FALSE(wrong.write(Beneath(directory_, "run-2")));
  wrong = script.run(1, false).talk;
  wrong.texts[0].resize(Talk::kMostBytes + 1);
  EXPECT_FALSE(wrong.write(Beneath(directory_, "run-2")));
}

// A message of PostgreSQL's protocol.
std::string message_of(char type, const std::string& body) {
  const size_t length = body.size() + 4;
  return type +
         std::string{static_cast<char>(length >> 24), static_cast<char>(length >> 16), static_cast<char>(length >> 8),
                     static_cast<char>(length)} +
         body;
}

TEST(Reading, MessagesOfPostgresAreShownWithTheirTexts) {
  using namespace std::string_literals;
  const std::string query = message_of('Q', "UPDATE t SET v = 7\0"s);
  EXPECT_EQ(readable(query, query.size()), "Q UPDATE t SET v = 7");
  EXPECT_EQ(shape_of(query, query.size()).masked, "Q UPDATE t SET v = #");
  const std::string answer = message_of('T', "\0\1v\0\0\0\0\0"s) +
                             message_of('D', "\0\2\0\0\0\1"s + "7" + "\xff\xff\xff\xff") +
                             message_of('C', "SELECT 1\0"s) + message_of('Z', "I");
  EXPECT_EQ(readable(answer, answer.size()), "T; D 7 null; C SELECT 1; Z");
  const std::string prepared = message_of('P', "\0SELECT $1\0\0\0"s) + message_of('B', "\0\0\0\0\0\1\0\0\0\2ab\0\0"s) +
                               message_of('E', "\0\0\0\0\0"s) + message_of('S', "");
  EXPECT_EQ(readable(prepared, prepared.size()), "P SELECT $1; B ab; E; S");
  EXPECT_EQ(readable(query + "?", query.size() + 1), query + "?") << "something else behind it";
  EXPECT_EQ(readable(query + "Q", query.size() + 9), "Q UPDATE t SET v = 7") << "of the next one little is known";
  EXPECT_EQ(readable(query + "Q", query.size() + 1), query + "Q") << "nothing follows";
  for (std::string text : {"250 OK\r\n", "220 mail", "10.0.0.1 is up", "T 12 x", "E: error", "Z"})
    EXPECT_EQ(readable(text, text.size()), text);
  for (std::string text : {"+OK\r\n\r\n", "*1\r\n\r\n", "--b\r\n\r\nbody", "*2\r\n$1\r\na\r\n\r\n"})
    readable(text, text.size());
  EXPECT_EQ(readable("Query me", 8), "Query me");
  for (size_t size = 0; size < answer.size(); size++) readable(answer.substr(0, size), answer.size());
}

TEST(UserClasses, WhatIsIgnoredGoesAndWhatIsOfAClassHasItsName) {
  testing::TalkScript script;
  const uint32_t a = script.node("a"), b = script.node("b");
  for (const char* text : {"heartbeat 1", "price is 5", "cost is 6", "other", "price is 5"}) script.say(a, b, text);
  Talk talk = script.run(1, false).talk;
  const auto classes = UserClasses::parse({"^heartbeat"}, {"amount=^(price|cost) is", "never=other thing"});
  ASSERT_TRUE(classes);
  classes->apply(talk);
  std::vector<std::string> received;
  for (const TalkEvent& event : talk.events)
    if (!event.sent) received.push_back(talk.texts[event.text]);
  EXPECT_THAT(received, ::testing::ElementsAre("amount", "amount", "other", "amount"));
  EXPECT_EQ(talk.events.size(), 8u) << "both ends of what is ignored are gone";
  EXPECT_EQ(classes->read("heartbeat 7", 11), std::nullopt);
  EXPECT_EQ(classes->read("cost is 9", 9), "amount");
  EXPECT_EQ(classes->read("plain", 5), "plain");
  EXPECT_TRUE(classes->is_class("amount"));
  EXPECT_FALSE(classes->is_class("plain"));
}

TEST(UserClasses, WhatIsWrongWithThemIsSaid) {
  EXPECT_NE(UserClasses::parse({"("}, {}).error().message.find("("), std::string::npos);
  for (const char* text : {"price", "=x", "", "name=("})
    EXPECT_EQ(UserClasses::parse({}, {text}).error().code, ErrorCode::usage) << text;
}

}  // namespace
}  // namespace friday
