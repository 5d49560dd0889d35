// Messages that stand one behind the other in what one call has sent.
#include "core/study/framing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace friday {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

std::vector<std::string> split(const std::string& bytes, const std::string& frame = "") {
  const auto framing = Framing::parse(frame);
  EXPECT_TRUE(framing) << framing.error().message;
  std::vector<std::string> messages;
  size_t at = 0;
  for (size_t length : framing->messages_in(bytes)) {
    messages.push_back(bytes.substr(at, length));
    at += length;
  }
  EXPECT_EQ(at, bytes.size());
  return messages;
}

std::string problem_of(const std::string& frame) {
  const auto framing = Framing::parse(frame);
  return framing ? "" : framing.error().message;
}

TEST(Framing, CommandsOfRedis) {
  const std::string ping = "*1\r\n$4\r\nPING\r\n", get = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
  EXPECT_THAT(split(ping + get + ping), ElementsAre(ping, get, ping));
  EXPECT_THAT(split("+OK\r\n:12\r\n$-1\r\n"), ElementsAre("+OK\r\n", ":12\r\n", "$-1\r\n"));
  EXPECT_THAT(split(ping + "*2\r\n$3\r\nGET"), ElementsAre(ping, "*2\r\n$3\r\nGET"));
  EXPECT_THAT(split(ping + "and more"), ElementsAre(ping + "and more"));
}

TEST(Framing, MessagesOfRespAreToldApart) {
  using Lengths = std::vector<size_t>;
  EXPECT_EQ(Framing().messages_in("+OK\r\n+OK\r\n"), (Lengths{5, 5}));
  EXPECT_EQ(Framing().messages_in("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI"), (Lengths{14, 10}))
      << "the last one ends early";
  EXPECT_EQ(Framing().messages_in("*0\r\n:1\r\n$-1\r\n"), (Lengths{4, 4, 5}));
  EXPECT_EQ(Framing().messages_in("$3\r\n\r\n\r\r\n"), (Lengths{9})) << "line ends in a string";
  EXPECT_EQ(Framing().messages_in("$3\r\nabcd\r\n"), (Lengths{10})) << "no value of RESP";
  EXPECT_EQ(Framing().messages_in("+OK\r\nGET / HTTP/1.1\r\n"), (Lengths{21})) << "something else behind it";
  EXPECT_EQ(Framing().messages_in("*99999999999\r\n"), (Lengths{14}));
  EXPECT_EQ(Framing().messages_in("$99999999999999999999\r\n"), (Lengths{23}));
  EXPECT_EQ(Framing().messages_in(std::string(100, '*')), (Lengths{100}));
  EXPECT_EQ(Framing().messages_in(""), Lengths{});
}

TEST(Framing, CommandsAndAnswersOfMemcached) {
  const std::string set = "set key 0 0 5\r\na\r\nbc\r\n", get = "get key other\r\n";
  EXPECT_THAT(split(set + get), ElementsAre(set, get));
  const std::string found = "VALUE key 0 5\r\na\r\nbc\r\nVALUE other 0 0\r\n\r\nEND\r\n";
  EXPECT_THAT(split("STORED\r\n" + found + "END\r\n"), ElementsAre("STORED\r\n", found, "END\r\n"));
  EXPECT_THAT(split(get + set.substr(0, 18)), ElementsAre(get, set.substr(0, 18)));
  EXPECT_THAT(split("set key 0 0 many\r\nx\r\n"), ElementsAre("set key 0 0 many\r\nx\r\n"));
}

TEST(Framing, RequestsAndResponsesOfHttp) {
  const std::string get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
                    post = "POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                    answer = "HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nhi",
                    none = "HTTP/1.1 304 Not Modified\r\n\r\n";
  EXPECT_THAT(split(get + post + get), ElementsAre(get, post, get));
  EXPECT_THAT(split(answer + none + answer), ElementsAre(answer, none, answer));
  EXPECT_THAT(split(get + post.substr(0, 45)), ElementsAre(get, post.substr(0, 45)));
  const std::string open = "HTTP/1.1 200 OK\r\n\r\nto the end of the connection",
                    chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
  EXPECT_THAT(split(open), ElementsAre(open));
  EXPECT_THAT(split(chunks), ElementsAre(chunks));
}

TEST(Framing, BinaryLengths) {
  EXPECT_THAT(split("\0\0\0\2ab\0\0\0\0\0\0\0\1c"s, "u32be"), ElementsAre("\0\0\0\2ab"s, "\0\0\0\0"s, "\0\0\0\1c"s));
  EXPECT_THAT(split("\2ab\1c\5d"s, "u8"), ElementsAre("\2ab", "\1c", "\5d"));
  EXPECT_THAT(split("tt\1\0xtt\0\0"s, "u16le@2"), ElementsAre("tt\1\0x"s, "tt\0\0"s));
  EXPECT_THAT(split("Q\0\0\0\6ab"s + "S\0\0\0\4"s, "u32be@1-4"), ElementsAre("Q\0\0\0\6ab"s, "S\0\0\0\4"s));
  EXPECT_THAT(split("\1a;\1b;"s, "u8+1"), ElementsAre("\1a;", "\1b;"));
  EXPECT_THAT(split("\xff\xff\xff\xff\xff\xff\xff\xff rest"s, "u64le"),
              ElementsAre("\xff\xff\xff\xff\xff\xff\xff\xff rest"s));
  EXPECT_THAT(split("Q\0\0\0\1ab"s, "u32be@1-4"), ElementsAre("Q\0\0\0\1ab"s)) << "shorter than itself";
}

TEST(Framing, RegularExpressions) {
  EXPECT_THAT(split("a\nbc\n\nd", "[^\\n]*\\n"), ElementsAre("a\n", "bc\n", "\n", "d"));
  EXPECT_THAT(split("PUT 3:abcGET 0:PUT 9:x", "[A-Z]+ (?P<length>[0-9]+):"),
              ElementsAre("PUT 3:abc", "GET 0:", "PUT 9:x"));
  EXPECT_THAT(split("<a>?<b>", "<[^>]*>"), ElementsAre("<a>", "?<b>")) << "what is no message goes to the end";
  EXPECT_THAT(split("X 99999999999999999999:a", "X (?P<length>[0-9]+):"), ElementsAre("X 99999999999999999999:a"));
}

TEST(Framing, WhatIsNoFramingIsSaid) {
  EXPECT_THAT(problem_of("(["), HasSubstr("a binary length such as u32be"));
  EXPECT_THAT(problem_of("a*"), HasSubstr("matches no bytes at all"));
  EXPECT_EQ(problem_of("u32be@1-4"), "");
}

TEST(Framing, AnyBytesAreSplitIntoWhatTheyAre) {
  std::mt19937_64 random(7);
  const std::string pieces[] = {"*",        "$",          "3\r\n",      "\r\n", "GET ",
                                "HTTP/1.1", "set k 0 0 ", "VALUE k 0 ", "-1",   "Content-Length: ",
                                ":",        "\n",         "END"};
  for (const std::string frame : {"", "u8", "u16be@1", "u64le-7", "[^\\n]*\\n", "(?P<length>-?[0-9]+)"})
    for (int round = 0; round < 3000; round++) {
      std::string bytes;
      for (uint64_t n = random() % 8; n > 0; n--)
        bytes += random() % 4 ? pieces[random() % std::size(pieces)] : std::string(1, static_cast<char>(random()));
      for (const std::string& message : split(bytes, frame)) ASSERT_FALSE(message.empty());
    }
}

}  // namespace
}  // namespace friday
