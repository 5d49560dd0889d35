// A judge whom recorders ask over connections of their own: what it says to them, and when, and that it lets everything
// go when one of them vanishes.
#include "core/record/judge_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <mutex>
#include <thread>

#include "core/record/far_judge.h"

namespace friday {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// `b` is handled after `a`. Others pass.
class TwoSteps : public MessageJudge {
 public:
  std::vector<size_t> messages_in(std::span<const std::byte> bytes) const override { return {bytes.size()}; }
  Verdict sent(const Sent& message) override {
    const std::string_view text(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    if (is_over() || (text != "a" && text != "b")) return Verdict::pass;
    if (text == "a") return first_ = message.ticket, Verdict::watch;
    if (handled_) return done_ = true, Verdict::watch;
    return second_ = message.ticket, Verdict::hold;
  }
  void received(Ticket) override {}
  void handled(Ticket ticket) override { handled_ |= ticket == first_; }
  void lost(Ticket) override {}
  void give_up(const std::string& why) override { why_ = why; }
  bool is_one_line() const override { return true; }
  bool do_without() override { return false; }
  std::vector<Released> release() override {
    if (!second_ || (!handled_ && why_.empty())) return {};
    done_ = handled_;
    return {{std::exchange(second_, 0), true}};
  }
  bool is_over() const override { return done_ || !why_.empty(); }
  std::string waits_for() const override { return "`a` to be handled"; }
  bool came_true() const override { return done_; }
  std::string reason() const override { return why_; }

 private:
  Ticket first_ = 0, second_ = 0;
  bool handled_ = false, done_ = false;
  std::string why_;
};

class Served {
 public:
  explicit Served(std::chrono::nanoseconds patience = 10s) {
    auto server = JudgeServer::listen({"127.0.0.1", "0"}, {.judge = std::make_shared<TwoSteps>(),
                                                           .order = "the order",
                                                           .missing =
                                                               [](const std::set<std::string>& roles) {
                                                                 return roles.size() < 2
                                                                            ? std::vector<std::string>{"slow"}
                                                                            : std::vector<std::string>();
                                                               },
                                                           .say =
                                                               [this](const std::string& text) {
                                                                 const std::scoped_lock lock(mutex_);
                                                                 said_ += text + "\n";
                                                               },
                                                           .patience = patience});
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::jthread([this] { server_->run(); });
  }
  ~Served() { server_->stop(); }
  JudgeServer& server() { return *server_; }
  std::string said() {
    const std::scoped_lock lock(mutex_);
    return said_;
  }

 private:
  std::mutex mutex_;
  std::string said_;
  std::unique_ptr<JudgeServer> server_;
  std::jthread thread_;
};

class FakeRecorder {
 public:
  FakeRecorder(Served& served, const std::string& role) : link_(*JudgeLink::connect(served.server().place())) {
    link_.trust();
    link_.send({{"is", "hello"}, {"key", served.server().key()}, {"roles", {role}}, {"machine", "m"}});
  }
  void send(const json& message) { link_.send(message); }
  void sent(uint64_t ticket, const std::string& from, const std::string& text, uint16_t port) {
    send({{"is", "sent"},
          {"ticket", ticket},
          {"from", from},
          {"to", ""},
          {"bytes", text},
          {"length", text.size()},
          {"local", place(port)},
          {"remote", place(7000)}});
  }
  json next() {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < end) {
      if (auto message = link_.next(); message && text_of(*message, "is") != "alive") return *message;
      if (link_.is_gone()) break;
      pollfd ready{link_.fd(), link_.events(), 0};
      (void)poll(&ready, 1, 100);
      link_.flush();
      link_.receive();
    }
    ADD_FAILURE() << "nothing comes: " << link_.why();
    return json::object();
  }
  // The next message, which must be this one.
  json next(const std::string& is) {
    json message = next();
    EXPECT_EQ(text_of(message, "is"), is) << message.dump();
    return message;
  }
  void say_name(const json& question, const std::string& name, bool waits = false) {
    send({{"is", "answer"}, {"number", question.at("number")}, {"name", name}, {"waits", waits}});
  }
  void say_count(const json& question, uint64_t count) {
    send({{"is", "answer"}, {"number", question.at("number")}, {"count", count}});
  }

 private:
  static json place(uint16_t port) { return as_json(SocketPlace{AF_INET, htons(port), {htonl(0x0a000001)}}); }
  JudgeLink link_;
};

void wait_for_begin(Served& served) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (served.said().find("take part") == std::string::npos && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(1ms);
  EXPECT_THAT(served.said(), testing::HasSubstr("server, slow take part\n"));
}

void begin(FakeRecorder& one, FakeRecorder& other, Served& served, bool waits = true) {
  one.send({{"is", "armed"}});
  other.send({{"is", "armed"}});
  if (waits) wait_for_begin(served);
}

// `b` of a program beside the server comes first, and waits; `a` comes from another machine and is handled.
json begin_two(FakeRecorder& server, FakeRecorder& slow) {
  server.send({{"is", "sent"}, {"ticket", 5}, {"from", "quick"}, {"to", "server"}, {"bytes", "b"}, {"length", 1}});
  slow.sent(9, "slow", "a", 5000);
  slow.say_name(slow.next("receiver"), "");
  const json asked = server.next("receiver");
  EXPECT_EQ(socket_place(asked["remote"])->port, htons(5000));
  server.say_name(asked, "server");
  const json quiet = slow.next("quiet");
  EXPECT_EQ(number_of(quiet, "ticket"), 9u);
  slow.say_count(quiet, 100);
  const json expect = server.next("expect");
  EXPECT_EQ(number_of(expect, "length"), 1u);
  server.say_count(expect, 700);
  const json released = slow.next("release");
  EXPECT_EQ(number_of(released, "ticket"), 9u);
  EXPECT_TRUE(flag_of(released, "far"));
  server.send({{"is", "far"}, {"what", "received"}, {"number", expect["number"]}});
  server.send({{"is", "far"}, {"what", "handled"}, {"number", expect["number"]}});
  return expect;
}

TEST(JudgeServer, AMessageIsWatchedWhereItIsReceived) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  begin_two(server, slow);
  slow.say_count(slow.next("count"), 101);
  server.say_count(server.next("count"), 701);
  const json second = server.next("release");
  EXPECT_EQ(number_of(second, "ticket"), 5u);
  EXPECT_TRUE(flag_of(second, "watched"));
  EXPECT_FALSE(flag_of(second, "far"));
  for (FakeRecorder* each : {&server, &slow}) EXPECT_TRUE(flag_of(each->next("over"), "came_true"));
}

// The receiver had received three bytes more than were counted, so that it seems to have handled the message before it
// came.
TEST(JudgeServer, WhatWasCountedWronglyIsNoted) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  begin_two(server, slow);
  for (int times = 0; times < 3; times++) {
    slow.say_count(slow.next("count"), 101);
    server.say_count(server.next("count"), 704);
  }
  const json over = server.next("over");
  EXPECT_FALSE(flag_of(over, "came_true"));
  EXPECT_EQ(text_of(over, "why"), "how many bytes of a connection were received could not be told");
}

// The program that has sent the first message ends, and its recorder with it.
TEST(JudgeServer, WhoseProgramsHaveEndedMayLeave) {
  Served served;
  FakeRecorder server(served, "server");
  const auto observer = JudgeObserver::ask(served.server().place(), served.server().key());
  ASSERT_TRUE(observer);
  {
    FakeRecorder slow(served, "slow");
    begin(server, slow, served);
    begin_two(server, slow);
    slow.next("count");
    slow.send({{"is", "leaves"}});
  }
  server.say_count(server.next("count"), 701);
  EXPECT_EQ(number_of(server.next("release"), "ticket"), 5u);
  EXPECT_TRUE(flag_of(server.next("over"), "came_true"));
  std::optional<JudgeServer::Outcome> outcome;
  for (int times = 0; times < 2000 && !(outcome = (*observer)->outcome()); times++) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(outcome && outcome->came_true);
}

// The programs that would receive a message end before it is sent on: it is let go, and once nobody is left the order
// is given up.
TEST(JudgeServer, WhoseReceiverHasEndedGoesOn) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  const auto observer = JudgeObserver::ask(served.server().place(), served.server().key());
  ASSERT_TRUE(observer);
  begin(server, slow, served);
  slow.sent(9, "slow", "a", 5000);
  slow.say_name(slow.next("receiver"), "");
  server.say_name(server.next("receiver"), "server");
  slow.say_count(slow.next("quiet"), 100);
  server.next("expect");
  server.send({{"is", "leaves"}});
  const json released = slow.next("release");
  EXPECT_EQ(number_of(released, "ticket"), 9u);
  EXPECT_FALSE(flag_of(released, "far"));
  slow.send({{"is", "leaves"}});
  std::optional<JudgeServer::Outcome> outcome;
  for (int times = 0; times < 5000 && !(outcome = (*observer)->outcome()); times++) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->why, "all programs have ended without `a` to be handled");
}

// It has said that the message was handled, and cannot be asked for its count.
TEST(JudgeServer, WhoHasHandledMayEnd) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  slow.sent(8, "slow", "b", 4000);
  slow.say_name(slow.next("receiver"), "");
  server.say_name(server.next("receiver"), "server");
  slow.sent(9, "slow", "a", 5000);
  slow.say_name(slow.next("receiver"), "");
  server.say_name(server.next("receiver"), "server");
  slow.say_count(slow.next("quiet"), 100);
  const json expect = server.next("expect");
  server.say_count(expect, 700);
  slow.next("release");
  server.send({{"is", "far"}, {"what", "handled"}, {"number", expect["number"]}});
  server.next("count");
  slow.say_count(slow.next("count"), 101);
  server.send({{"is", "leaves"}});
  EXPECT_EQ(number_of(slow.next("release"), "ticket"), 8u);  // to nobody any more
}

TEST(JudgeServer, AMessageToNobodyWhoIsRecordedPasses) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  slow.sent(9, "slow", "a", 5000);
  slow.say_name(slow.next("receiver"), "");
  server.say_name(server.next("receiver"), "");
  const json released = slow.next("release");
  EXPECT_FALSE(flag_of(released, "watched"));
  EXPECT_FALSE(flag_of(released, "far"));
}

TEST(JudgeServer, AMessageWaitsUntilItsConnectionIsAccepted) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  slow.sent(9, "slow", "a", 5000);
  for (int times = 0; times < 3; times++) {
    slow.say_name(slow.next("receiver"), "");
    server.say_name(server.next("receiver"), times == 2 ? "server" : "", true);
  }
  slow.next("quiet");
}

// Two recorders say something at the same time, and messages of others pass meanwhile, which is no progress.
TEST(JudgeServer, NothingIsOverlookedAndPassingIsNoProgress) {
  Served served(500ms);
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  server.send({{"is", "sent"}, {"ticket", 1}, {"from", "quick"}, {"to", "server"}, {"bytes", "b"}, {"length", 1}});
  json message;
  for (uint64_t ticket = 2; ticket < 200; ticket++) {
    server.send({{"is", "sent"}, {"ticket", ticket}, {"from", "x"}, {"to", "server"}, {"bytes", "x"}, {"length", 1}});
    slow.sent(ticket, "slow", "x", static_cast<uint16_t>(5000 + ticket));
    std::this_thread::sleep_for(10ms);  // longer than the patience in all
  }
  auto answers = std::async(std::launch::async, [&] {
    json said;
    while (text_of(said = slow.next(), "is") != "over")
      if (text_of(said, "is") == "receiver") slow.say_name(said, "");
    return said;
  });
  while (text_of(message = server.next(), "is") != "over")
    if (text_of(message, "is") == "receiver") server.say_name(message, "server");
  EXPECT_THAT(text_of(message, "why"), testing::HasSubstr("0.5 s have passed"));
  EXPECT_EQ(text_of(answers.get(), "why"), text_of(message, "why"));
}

TEST(JudgeServer, OneThatLeavesBeforeItTakesPartStopsNobody) {
  Served served;
  FakeRecorder server(served, "server"), slow(served, "slow");
  {
    FakeRecorder other(served, "other");
    begin(server, slow, served, false);
  }
  wait_for_begin(served);
}

TEST(JudgeServer, BeforeAllAreThereEverythingPasses) {
  Served served;
  FakeRecorder server(served, "server");
  server.send({{"is", "armed"}});
  server.send({{"is", "sent"}, {"ticket", 1}, {"from", "quick"}, {"to", "server"}, {"bytes", "b"}, {"length", 1}});
  EXPECT_FALSE(flag_of(server.next("release"), "watched"));
}

TEST(JudgeServer, ARecorderThatVanishesEndsTheOrder) {
  Served served;
  FakeRecorder server(served, "server");
  {
    FakeRecorder slow(served, "slow");
    begin(server, slow, served);
  }
  const json over = server.next("over");
  EXPECT_FALSE(flag_of(over, "came_true"));
  EXPECT_THAT(text_of(over, "why"), testing::HasSubstr("the recorder of 127.0.0.1 (slow) has vanished"));
}

TEST(JudgeServer, AConnectionThatNobodyAcceptsIsGivenUp) {
  Served served(200ms);
  FakeRecorder server(served, "server"), slow(served, "slow");
  begin(server, slow, served);
  slow.sent(9, "slow", "a", 5000);
  const auto until_over = [](FakeRecorder& recorder) {
    json message;
    while (text_of(message = recorder.next(), "is") == "receiver") recorder.say_name(message, "", true);
    return message;
  };
  auto other = std::async(std::launch::async, [&] { return until_over(server); });
  for (const json& over : {until_over(slow), other.get()}) {
    EXPECT_EQ(text_of(over, "is"), "over");
    EXPECT_THAT(text_of(over, "why"),
                testing::HasSubstr("until somebody accepted the connection of a message of slow"));
  }
}

TEST(JudgeServer, WhoeverDoesNotKnowTheKeyIsRefused) {
  Served served;
  const auto refused = JudgeObserver::ask(served.server().place(), "0");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("the key is another one"));
  const auto observer = JudgeObserver::ask(served.server().place(), served.server().key());
  ASSERT_TRUE(observer) << observer.error().message;
  EXPECT_EQ((*observer)->order(), "the order");
  EXPECT_FALSE((*observer)->outcome());
}

}  // namespace
}  // namespace friday
