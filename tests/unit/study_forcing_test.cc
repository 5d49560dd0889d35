// Forcing an order: which messages are let through, which wait for which, and that none is ever lost, in random runs,
// too.
#include "core/study/forcing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "tests/unit/study_support.h"

namespace friday {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Verdict = Forcing::Verdict;

MessageClass of(const std::string& from, const std::string& text) { return {from, "db", text}; }

// What is let go once this one was handled; `*` behind those that are watched.
std::string handle(Forcing& forcing, Forcing::Ticket ticket) {
  forcing.handled(ticket);
  std::string out;
  for (const auto& [each, watched] : forcing.release())
    out += fmt::format("{}{}{}", out.empty() ? "" : " ", each, watched ? "*" : "");
  return out;
}

Verdict send(Forcing& forcing, Forcing::Ticket ticket, const std::string& from, const std::string& text,
             const std::string& to = "db") {
  return forcing.sent(ticket, from, to, text, text.size());
}

TEST(Forcing, what_comes_too_early_waits_until_the_one_before_was_handled) {
  StepForcing forcing({{of("a", "x #"), of("b", "y #"), of("a", "z #")}, {}, false, {0, 0, 0}});
  EXPECT_EQ(send(forcing, 1, "b", "y 1"), Verdict::hold);
  EXPECT_EQ(send(forcing, 2, "b", "other"), Verdict::pass);
  EXPECT_EQ(send(forcing, 3, "c", "y 1"), Verdict::pass) << "from somebody else";
  EXPECT_EQ(send(forcing, 4, "b", "y 1", "cache"), Verdict::pass) << "to somebody else";
  EXPECT_THAT(forcing.waits_for(), HasSubstr("`x #` from a to db to be sent"));
  EXPECT_EQ(send(forcing, 5, "a", "x 7"), Verdict::watch);
  EXPECT_THAT(forcing.waits_for(), HasSubstr("`x #` from a to db to be handled"));
  EXPECT_EQ(send(forcing, 6, "a", "z 1"), Verdict::hold);
  EXPECT_EQ(handle(forcing, 99), "") << "of no message of the order";
  EXPECT_EQ(handle(forcing, 5), "1*");
  EXPECT_EQ(send(forcing, 8, "a", "z 2"), Verdict::hold);
  EXPECT_FALSE(forcing.is_complete());
  EXPECT_EQ(handle(forcing, 1), "6* 8");
  EXPECT_TRUE(forcing.is_complete()) << "whenever the last one is handled";
  EXPECT_EQ(send(forcing, 7, "b", "y 2"), Verdict::pass) << "it has come true once";
}

TEST(Forcing, the_same_message_twice_is_two_steps) {
  StepForcing forcing({{of("web", "GET price:f#"), of("crawler", "SET price:f1 #"), of("web", "GET price:f#")},
                       {},
                       false,
                       {0, ForcedOrder::kAll, 0}});
  EXPECT_EQ(send(forcing, 1, "crawler", "SET price:f1 100"), Verdict::pass) << "such come before it, too";
  EXPECT_EQ(send(forcing, 2, "web", "GET price:f1"), Verdict::watch);
  EXPECT_EQ(send(forcing, 3, "web", "GET price:f1"), Verdict::hold);
  EXPECT_EQ(handle(forcing, 2), "");
  EXPECT_EQ(send(forcing, 4, "crawler", "SET price:f2 100"), Verdict::pass) << "another flight";
  EXPECT_EQ(send(forcing, 5, "crawler", "SET price:f1 200"), Verdict::watch);
  EXPECT_EQ(handle(forcing, 5), "3*");
}

TEST(Forcing, what_must_not_come_between_waits_for_the_end) {
  StepForcing forcing({{of("a", "x #"), of("a", "z #")}, {of("b", "y #")}, false, {0, 0}});
  EXPECT_EQ(send(forcing, 1, "b", "y 1"), Verdict::pass) << "before it has begun";
  EXPECT_EQ(send(forcing, 2, "a", "x 1"), Verdict::watch);
  EXPECT_EQ(send(forcing, 3, "b", "y 2"), Verdict::hold);
  EXPECT_EQ(handle(forcing, 2), "");
  EXPECT_EQ(send(forcing, 4, "b", "y 3"), Verdict::hold);
  EXPECT_EQ(send(forcing, 5, "a", "z 1"), Verdict::watch);
  EXPECT_EQ(handle(forcing, 5), "3 4");
}

TEST(Forcing, one_matter_is_told_from_others_by_a_common_word) {
  StepForcing forcing({{of("a", "GET key:#"), of("b", "SET key:# #")}, {}, true, {0, 0}});
  EXPECT_EQ(send(forcing, 1, "b", "SET key:1 5"), Verdict::hold) << "nobody knows yet of which matter it will be";
  EXPECT_EQ(send(forcing, 2, "b", "SET key:2 5"), Verdict::hold);
  EXPECT_EQ(send(forcing, 3, "a", "GET key:2"), Verdict::watch);
  EXPECT_EQ(handle(forcing, 3), "2* 1") << "the first is of another matter";
  EXPECT_TRUE(forcing.is_complete());
}

TEST(Forcing, alike_roles_are_one) {
  StepForcing forcing({{{"client-#", "db", "x 1"}, of("b", "y")}, {}, false, {0, 0}});
  EXPECT_EQ(send(forcing, 1, "client-7", "x 2"), Verdict::pass);
  EXPECT_EQ(send(forcing, 2, "client-7", "x 1", ""), Verdict::watch) << "nobody knows who will receive it";
}

TEST(Forcing, what_no_step_waits_for_any_more_is_let_go) {
  StepForcing forcing({{of("a", "x"), of("b", "y"), of("c", "z")}, {}, false, {0, 0, 0}});
  EXPECT_EQ(send(forcing, 1, "a", "x"), Verdict::watch);
  EXPECT_EQ(send(forcing, 2, "b", "y"), Verdict::hold);
  EXPECT_EQ(send(forcing, 3, "b", "y"), Verdict::hold);
  EXPECT_EQ(handle(forcing, 1), "2* 3") << "one y is enough";
  EXPECT_EQ(handle(forcing, 2), "");
  EXPECT_EQ(send(forcing, 4, "c", "z"), Verdict::watch);
  EXPECT_TRUE(forcing.is_complete());
}

TEST(Forcing, what_is_kept_out_is_of_the_matter_too) {
  StepForcing forcing({{of("a", "GET key:#"), of("a", "SET key:# #")}, {of("b", "SET key:# #")}, true, {0, 0}});
  EXPECT_EQ(send(forcing, 1, "a", "GET key:1"), Verdict::watch);
  EXPECT_EQ(send(forcing, 2, "b", "SET key:2 5"), Verdict::pass);
  EXPECT_EQ(send(forcing, 3, "b", "SET key:1 5"), Verdict::hold);
}

// By hand: what stands before the first step in a run without it says nothing.
TEST(Forcing, messages_before_the_order_are_looked_up_where_it_comes_true) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 4; number++) {
    testing::TalkScript script;
    const uint32_t db = script.node("db"), a = script.node("a"), b = script.node("b");
    if (number > 2) script.say(b, db, "y");
    script.say(a, db, "x");
    if (number < 3) script.say(b, db, "y");
    if (number == 4) script.say(b, db, "y");
    runs.push_back(script.run(number, number < 3));
  }
  const Naming naming = Naming::of(runs);
  const auto name = [&](const std::string& text) {
    for (uint32_t i = 0; i < naming.identities.size(); i++)
      if (naming.identities[i].text == text && !naming.identities[i].sent) return i;
    return ~0u;
  };
  Order order;
  order.names = {name("x"), name("y")};
  const auto forced = forced_order(naming, order, true, 4), prevented = forced_order(naming, order, false, 3);
  ASSERT_TRUE(forced && *forced && prevented && *prevented);
  EXPECT_EQ((*forced)->steps[0].text, "x");
  EXPECT_THAT((*forced)->before, ElementsAre(0, 1)) << "in run 4 one comes before, too";
  EXPECT_EQ((*prevented)->steps[0].text, "y");
  EXPECT_THAT((*prevented)->before, ElementsAre(0, 0));
}

TEST(Forcing, giving_up_lets_everything_go) {
  StepForcing forcing({{of("a", "x"), of("b", "y"), of("c", "z")}, {}, false, {0, 0, 0}});
  send(forcing, 1, "c", "z");
  send(forcing, 2, "b", "y");
  forcing.give_up();
  EXPECT_EQ(handle(forcing, 0), "1 2");
  EXPECT_EQ(send(forcing, 3, "b", "y"), Verdict::pass);
  EXPECT_FALSE(forcing.is_complete());
}

TEST(Forcing, a_step_that_is_lost_is_waited_for_again) {
  StepForcing forcing({{of("a", "x"), of("b", "y")}, {}, false, {0, 0}});
  EXPECT_EQ(send(forcing, 1, "a", "x"), Verdict::watch);
  EXPECT_EQ(send(forcing, 2, "b", "y"), Verdict::hold);
  forcing.lost(1);
  EXPECT_EQ(send(forcing, 3, "a", "x"), Verdict::watch);
  EXPECT_EQ(handle(forcing, 3), "2*");
}

TEST(Forcing, the_literal_of_a_class_stands_in_its_messages) {
  EXPECT_EQ(literal_of(of("a", "SET price:f1 #")), "price:f1");
  EXPECT_EQ(literal_of(of("a", "GET price:f#")), "price:f");
  EXPECT_EQ(literal_of(of("a", "# bytes: # # #")), "");
  EXPECT_EQ(literal_of(of("a", "#")), "");
  EXPECT_EQ(literal_of(of("a", "52 bytes: # 0x12345678")), "");
  EXPECT_EQ(literal_of(of("a", "(nil)")), "");
  EXPECT_EQ(literal_of(of("a", "D # null; C")), "D");
}

// A network with random delays, and the rule by which a shaper does what a Forcing says: what follows a held message on
// its connection waits, too.
class Network {
 public:
  Network(const ForcedOrder& order, unsigned seed) : order_(order), forcing_(order), random_(seed) {}

  void run(size_t messages) {
    for (size_t i = 0; i < messages; i++) {
      while (!under_way_.empty() && draw(3) == 0) handle_one();
      send_one();
    }
    while (!under_way_.empty()) handle_one();
    if (!forcing_.is_complete()) forcing_.give_up();
    release();
    while (!under_way_.empty()) handle_one();
  }
  size_t left() const {
    size_t sum = 0;
    for (const auto& [from, queue] : queues_) sum += queue.size();
    return sum;
  }
  bool is_complete() const { return forcing_.is_complete(); }
  size_t handled = 0;

 private:
  struct Sent {
    Forcing::Ticket ticket;
    char kind;
    Verdict verdict;
  };
  unsigned draw(unsigned below) { return std::uniform_int_distribution<unsigned>(0, below - 1)(random_); }

  void send_one() {
    const std::string from(1, static_cast<char>('a' + draw(3)));
    const char kind = "xyzw"[draw(4)];
    const Forcing::Ticket ticket = next_++;
    const Verdict verdict = send(forcing_, ticket, from, std::string(1, kind));
    if (verdict == Verdict::hold) held_.insert(ticket);
    if (verdict == Verdict::watch) watched_.insert(ticket);
    kinds_[ticket] = kind;
    senders_[ticket] = from;
    queues_[from].push_back(ticket);
    release();
  }
  void pump() {
    for (auto& [from, queue] : queues_)
      while (!queue.empty() && !held_.contains(queue.front())) {
        const Forcing::Ticket ticket = queue.front();
        queue.pop_front();
        passed(ticket);
        under_way_.push_back(ticket);
      }
  }
  // What the order promises, checked apart from how it is kept.
  void passed(Forcing::Ticket ticket) {
    if (forcing_.is_given_up() || done_ == order_.steps.size()) return;
    const std::string text(1, kinds_[ticket]);
    // What follows the last step on its connection comes behind it.
    if (watched_.contains(ticket) && done_ + 1 == order_.steps.size()) last_sender_ = senders_[ticket];
    for (const MessageClass& out : order_.kept_out)
      EXPECT_FALSE(out.text == text && out.from == senders_[ticket] && begun_ && last_sender_ != out.from)
          << "message " << ticket << " has come between";
  }
  void handle_one() {
    const size_t at = draw(static_cast<unsigned>(under_way_.size()));
    const Forcing::Ticket ticket = under_way_[at];
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(at));
    handled++;
    if (!watched_.contains(ticket)) return;
    begun_ = true;
    EXPECT_EQ(std::string(1, kinds_[ticket]), order_.steps[done_].text);
    done_++;
    forcing_.handled(ticket);
    release();
  }
  void release() {
    for (const auto& [ticket, watched] : forcing_.release()) {
      EXPECT_EQ(held_.erase(ticket), 1u) << "message " << ticket << " was let go twice";
      if (watched) watched_.insert(ticket);
    }
    pump();
  }

  const ForcedOrder order_;
  StepForcing forcing_;
  std::mt19937 random_;
  std::map<std::string, std::deque<Forcing::Ticket>> queues_;
  std::map<Forcing::Ticket, char> kinds_;
  std::map<Forcing::Ticket, std::string> senders_;
  std::set<Forcing::Ticket> held_, watched_;
  std::vector<Forcing::Ticket> under_way_;
  Forcing::Ticket next_ = 1;
  size_t done_ = 0;
  bool begun_ = false;
  std::string last_sender_;
};

TEST(Forcing, random_runs_keep_the_order_and_lose_nothing) {
  size_t complete = 0;
  for (unsigned seed = 0; seed < 2000; seed++) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned below) { return std::uniform_int_distribution<unsigned>(0, below - 1)(random); };
    ForcedOrder order;
    for (size_t steps = 2 + draw(2); order.steps.size() < steps;)
      order.steps.push_back(of(std::string(1, static_cast<char>('a' + draw(3))), std::string(1, "xyz"[draw(3)])));
    if (order.steps.size() == 2 && draw(2))
      order.kept_out.push_back(of(std::string(1, static_cast<char>('a' + draw(3))), "w"));
    for (size_t i = 0; i < order.steps.size(); i++)
      order.before.push_back(draw(2) ? 0 : i ? ForcedOrder::kAll : draw(3));
    Network network(order, seed);
    network.run(40);
    EXPECT_EQ(network.left(), 0u) << "seed " << seed;
    EXPECT_EQ(network.handled, 40u) << "seed " << seed;
    complete += network.is_complete();
  }
  EXPECT_GT(complete, 500u) << "hardly any order has come true, so that this tests little";
}

}  // namespace
}  // namespace friday
