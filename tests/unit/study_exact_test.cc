// The order of a run message by message: what each of them waits for, and that a run of other timing, with an order of
// any of the messages forced onto it, receives these in the same order and never comes to a standstill. And the search
// for the fewest members of a list that still have a property.
#include "core/study/exact_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "core/study/exact_forcing.h"
#include "core/study/minimise.h"
#include "tests/unit/study_support.h"

namespace friday {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TalkScript;
using Need = ExactMessage::Need;
using Verdict = Forcing::Verdict;

TEST(RunOrder, a_message_waits_for_the_ones_before_it_at_its_receiver) {
  TalkScript script;
  const uint32_t a = script.node("a"), b = script.node("b"), db = script.node("db"), other = script.node("other");
  script.say(a, db, "SET 1");
  script.say(b, other, "GET 1");
  script.say(db, a, "OK");
  script.say(b, db, "SET 2");
  script.say(std::nullopt, db, "from outside");
  script.say(a, db, "SET 3");
  const auto order = RunOrder::of(script.run(1, true).talk, {});
  ASSERT_TRUE(order) << order.error().message;
  const ExactOrder all = order->of_all();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].is.text, "SET #");
  EXPECT_EQ(all[0].number, 1u);
  EXPECT_EQ(all[4].number, 2u) << "the second one of a";
  EXPECT_THAT(all[0].needs, IsEmpty());
  EXPECT_THAT(all[1].needs, IsEmpty()) << "another receiver";
  EXPECT_THAT(all[3].needs, ElementsAre(Need{0, true}));
  EXPECT_THAT(all[4].needs, ElementsAre(Need{3, true}));
  const std::vector<uint32_t> some{0, 4};
  EXPECT_THAT(order->of_these(some)[1].needs, ElementsAre(Need{0, true})) << "it was answered by then";
  EXPECT_EQ(order->of_these(some)[1].number, 2u) << "whatever is left out";
}

TEST(RunOrder, a_value_that_many_runs_have_is_a_part_of_the_class) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 0; number < 10; number++) {
    TalkScript script;
    const uint32_t a = script.node("a"), db = script.node("db");
    for (unsigned i = 0; i < 4; i++)
      script.say(a, db, fmt::format("SET price:f{} {}", (number + i) % 2, 1000 + number * 100 + i));
    runs.push_back(script.run(number, number % 2));
  }
  const Naming naming = Naming::of(runs);
  const auto order = RunOrder::of(runs[0].talk, naming);
  ASSERT_TRUE(order);
  std::vector<std::string> texts;
  for (const ExactMessage& each : order->of_all()) texts.push_back(fmt::format("{} {}", each.is.text, each.number));
  EXPECT_THAT(texts, ElementsAre("SET price:f0 # 1", "SET price:f1 # 1", "SET price:f0 # 2", "SET price:f1 # 2"));
  ExactForcing forcing(order->of_all(), order->kept_values());
  EXPECT_EQ(forcing.sent(1, "a", "db", "SET price:f1 7", 14), Verdict::hold) << "behind the first f0";
  EXPECT_EQ(forcing.sent(2, "a", "db", "SET price:f7 7", 14), Verdict::pass);
  EXPECT_EQ(forcing.sent(3, "a", "db", "SET price:f0 7", 14), Verdict::watch);
}

// Who waits for the answer to a question of his own is not done with what he was asked, so that the answer must not
// wait for that.
TEST(RunOrder, an_answer_does_not_wait_for_what_it_is_needed_for) {
  TalkScript script;
  const uint32_t user = script.node("user"), web = script.node("web"), db = script.node("db"),
                 late = script.node("late");
  script.say(user, web, "look");
  script.say(web, db, "GET");
  script.say(late, web, "look");
  script.say(db, web, "1");
  script.say(web, user, "page");
  const auto order = RunOrder::of(script.run(1, true).talk, {});
  ASSERT_TRUE(order);
  const ExactOrder all = order->of_all();
  EXPECT_THAT(all[2].needs, ElementsAre(Need{0, false})) << "the first one was under way still";
  EXPECT_THAT(all[3].needs, ElementsAre(Need{2, true}));
}

TEST(ExactForcing, goes_on_without_what_does_not_come) {
  ExactOrder order{{{"a", "db", "x"}, 1, {}}, {{"b", "db", "y"}, 1, {{0, true}}}, {{"a", "db", "x"}, 2, {{1, true}}}};
  ExactForcing forcing(order, {});
  EXPECT_EQ(forcing.sent(1, "b", "db", "y", 1), Verdict::hold);
  EXPECT_THAT(forcing.waits_for(), HasSubstr("`x` from a to db (number 1) to be sent, before `y` from b to db"));
  EXPECT_THAT(forcing.release(), IsEmpty());
  EXPECT_FALSE(forcing.do_without(false));
  EXPECT_TRUE(forcing.do_without(true));
  EXPECT_THAT(forcing.left_out(), ElementsAre(0, 2)) << "nothing like it was ever sent";
  EXPECT_THAT(forcing.release(), ElementsAre(Forcing::Released{1, true}));
  EXPECT_TRUE(forcing.is_complete());
  EXPECT_FALSE(forcing.came_true());
  EXPECT_THAT(forcing.waits_for(), HasSubstr("2 of 3 messages did not come"));
  EXPECT_EQ(forcing.sent(2, "a", "db", "x", 1), Verdict::pass);
}

TEST(ExactForcing, what_does_not_become_handled_counts_as_such_when_it_was_received) {
  ExactForcing forcing({{{"a", "db", "x"}, 1, {}}, {{"b", "db", "y"}, 1, {{0, true}}}}, {});
  EXPECT_EQ(forcing.sent(1, "a", "db", "x", 1), Verdict::watch);
  EXPECT_EQ(forcing.sent(2, "b", "db", "y", 1), Verdict::hold);
  EXPECT_FALSE(forcing.do_without(false)) << "it is under way still";
  forcing.received(1);
  EXPECT_THAT(forcing.release(), IsEmpty());
  EXPECT_TRUE(forcing.do_without(false));
  EXPECT_THAT(forcing.release(), ElementsAre(Forcing::Released{2, true}));
  EXPECT_TRUE(forcing.came_true());
  EXPECT_EQ(forcing.only_received(), 1u);
}

TEST(ExactForcing, counts_those_of_one_class_as_they_are_sent) {
  ExactForcing forcing({{{"a", "db", "x #"}, 2, {}}, {{"b", "db", "y"}, 1, {{0, false}}}}, {});
  EXPECT_EQ(forcing.sent(1, "b", "db", "y", 1), Verdict::hold);
  EXPECT_EQ(forcing.sent(2, "a", "db", "x 1", 3), Verdict::pass);
  EXPECT_EQ(forcing.sent(3, "a", "", "x 2", 3), Verdict::watch) << "its receiver is not known yet";
  forcing.handled(2);
  EXPECT_THAT(forcing.release(), IsEmpty());
  forcing.received(3);
  EXPECT_THAT(forcing.release(), ElementsAre(Forcing::Released{1, true}));
  EXPECT_TRUE(forcing.came_true());
}

// Clients that ask servers, which may ask another server in turn before they answer, for each client in a thread of its
// own. Each step is taken at random from those that are possible. With an order forced, its messages arrive when that
// says so.
class Cluster {
 public:
  Cluster(uint32_t seed, bool recorded) : random_(seed), recorded_(recorded) {
    for (const char* role : {"client-1", "client-2", "client-3", "web", "mail", "db"})
      nodes_.push_back(script_.node(role));
  }

  // The work is the same for all runs with the same `work`.
  void run(uint32_t work, Forcing* forcing) {
    forcing_ = forcing;
    std::mt19937 plan(work);
    for (uint32_t client = 0; client < kClients; client++)
      for (unsigned i = plan() % 6; i > 0; i--)
        todo_[client].push_back({kClients + static_cast<uint32_t>(plan() % 2), plan() % 3 == 0, plan() % 2 == 0});
    while (step() || (forcing_ && do_without())) {}
  }

  Talk talk() { return script_.run(1, true).talk; }
  // Tickets are numbers of messages, by sender, receiver and number, in the order in which they were received.
  std::vector<std::string> received;
  // When, in steps of the run. Of the messages that are answered when they are handled.
  std::map<std::string, size_t> received_at, answered_at;
  bool is_done() const {
    return std::ranges::all_of(todo_, [](const auto& each) { return each.second.empty(); }) && channels_are_empty() &&
           tasks_.empty();
  }

 private:
  static constexpr uint32_t kClients = 3, kDb = 5;
  struct Job {
    uint32_t server;
    bool one_way, asks;
  };
  struct Message {
    uint64_t ticket, id;
    Job job;
    bool is_answer;
    std::string name;
  };
  // What a receiver does about a message.
  struct Task {
    uint32_t node, from;
    Message message;
    bool has_asked = false, has_answer = false;
    uint64_t answer = 0;
  };
  using Way = std::pair<uint32_t, uint32_t>;

  bool channels_are_empty() const {
    return std::ranges::all_of(ways_, [](const auto& each) { return each.second.empty(); });
  }
  std::string role(uint32_t node) const {
    static const char* const kRoles[] = {"client-1", "client-2", "client-3", "web", "mail", "db"};
    return kRoles[node];
  }

  void send(uint32_t from, uint32_t to, const Job& job, bool is_answer) {
    const std::string text = is_answer ? "answer" : "ask";
    Message message{++tickets_, 0, job, is_answer, ""};
    message.name = role(from) + role(to) + text + std::to_string(++count_[role(from) + role(to) + text]);
    if (recorded_) message.id = script_.send(nodes_[from], nodes_[to], text);
    if (forcing_ && forcing_->sent(message.ticket, role(from), role(to), text, text.size()) == Verdict::hold)
      held_.insert(message.ticket);
    ways_[{from, to}].push_back(message);
    release();
  }
  void handled(uint64_t ticket) {
    if (forcing_) forcing_->handled(ticket);
    release();
  }
  bool do_without() {
    const bool more = forcing_->do_without(false) || forcing_->do_without(true);
    release();
    return more;
  }
  void release() {
    if (!forcing_) return;
    for (const auto& each : forcing_->release()) held_.erase(each.ticket);
  }

  void receive(uint32_t from, uint32_t to) {
    const Message message = ways_[{from, to}].front();
    ways_[{from, to}].pop_front();
    if (recorded_) script_.receive(message.id);
    received.push_back(message.name);
    received_at[message.name] = clock_++;
    if (forcing_) forcing_->received(message.ticket);
    release();
    if (!message.is_answer) return (void)tasks_.push_back({to, from, message});
    if (to < kClients) {
      waiting_.erase(to);
      return handled(message.ticket);
    }
    // The answer goes to the first task that waits for one of this server.
    const auto task = std::ranges::find_if(
        tasks_, [&](const Task& each) { return each.node == to && each.has_asked && !each.has_answer; });
    task->has_answer = true;
    task->answer = message.ticket;
  }

  // Whether no earlier message of the same client is being worked on.
  bool is_next(size_t index) const {
    return std::none_of(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(index), [&](const Task& each) {
      return each.node == tasks_[index].node && each.from == tasks_[index].from;
    });
  }

  void work_on(size_t index) {
    Task& task = tasks_[index];
    if (task.message.job.asks && task.node != kDb && !task.has_asked) {
      task.has_asked = true;
      return send(task.node, kDb, {kDb, false, false}, false);
    }
    const Task done = task;
    tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!done.message.job.one_way) answered_at[done.message.name] = clock_++;
    if (done.has_answer) handled(done.answer);
    handled(done.message.ticket);
    if (!done.message.job.one_way) send(done.node, done.from, done.message.job, true);
  }

  bool step() {
    std::vector<std::function<void()>> possible;
    for (auto& [client, jobs] : todo_)
      if (!jobs.empty() && !waiting_.contains(client))
        possible.push_back([this, &jobs, client = client] {
          const Job job = jobs.front();
          jobs.pop_front();
          if (!job.one_way) waiting_.insert(client);
          send(client, job.server, job, false);
        });
    for (const auto& [way, messages] : ways_)
      if (!messages.empty() && !held_.contains(messages.front().ticket))
        possible.push_back([this, way = way] { receive(way.first, way.second); });
    for (size_t i = 0; i < tasks_.size(); i++)
      if (is_next(i) && (!tasks_[i].has_asked || tasks_[i].has_answer)) possible.push_back([this, i] { work_on(i); });
    if (possible.empty()) return false;
    possible[random_() % possible.size()]();
    return true;
  }

  TalkScript script_;
  std::mt19937 random_;
  const bool recorded_;
  Forcing* forcing_ = nullptr;
  std::vector<uint32_t> nodes_;
  std::map<uint32_t, std::deque<Job>> todo_;
  std::map<Way, std::deque<Message>> ways_;
  std::deque<Task> tasks_;
  std::set<uint32_t> waiting_;  // clients, for an answer
  std::set<uint64_t> held_;
  std::map<std::string, int> count_;
  uint64_t tickets_ = 0;
  size_t clock_ = 0;
};

// How many pairs of messages to one receiver there are of which the first was answered before the second was received
// in the recorded run, and of how many of them that is so again.
std::pair<size_t, size_t> answered_in_order(const ExactOrder& order, const Cluster& recorded, const Cluster& again) {
  size_t pairs = 0, kept = 0;
  const auto name = [](const ExactMessage& each) {
    return each.is.from + each.is.to + each.is.text + std::to_string(each.number);
  };
  for (const ExactMessage& earlier : order)
    for (const ExactMessage& later : order) {
      const auto answered = recorded.answered_at.find(name(earlier));
      if (earlier.is.to != later.is.to || answered == recorded.answered_at.end()) continue;
      if (answered->second > recorded.received_at.at(name(later))) continue;
      pairs++;
      kept += again.answered_at.at(name(earlier)) < again.received_at.at(name(later));
    }
  return {pairs, kept};
}

// What a run received of the messages, by receiving role.
std::map<std::string, std::vector<std::string>> by_receiver(const ExactOrder& order,
                                                            const std::vector<std::string>& received) {
  std::map<std::string, std::string> wanted;
  for (const ExactMessage& each : order)
    wanted[each.is.from + each.is.to + each.is.text + std::to_string(each.number)] = each.is.to;
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& each : received)
    if (const auto known = wanted.find(each); known != wanted.end()) out[known->second].push_back(each);
  return out;
}

TEST(ExactForcing, runs_of_any_timing_receive_what_is_forced_in_the_order_of_the_recorded_run) {
  size_t differed = 0, stood_still = 0, impossible = 0, whole_impossible = 0, pairs = 0, answered = 0;
  for (uint32_t seed = 0; seed < 3000; seed++) {
    Cluster recorded(seed, true);
    recorded.run(seed, nullptr);
    ASSERT_TRUE(recorded.is_done());
    const auto order = RunOrder::of(recorded.talk(), {});
    ASSERT_TRUE(order);
    ASSERT_EQ(order->size(), recorded.received.size());
    std::mt19937 random(seed);
    std::vector<uint32_t> kept;
    for (uint32_t i = 0; i < order->size(); i++)
      if (seed % 3 == 0 || random() % 2) kept.push_back(i);
    const ExactOrder forced = order->of_these(kept);
    ExactForcing forcing(forced, {});
    Cluster again(seed + 100'000, false);
    again.run(seed, &forcing);
    ASSERT_TRUE(again.is_done()) << "seed " << seed << ": " << forcing.waits_for();
    stood_still += forcing.only_received() > 0;
    // Which of its threads asks first is not a matter of messages, nor is the order of those that are left out. So of
    // the messages of one class another one may be the third, and come too late then.
    impossible += !forcing.came_true();
    whole_impossible += !forcing.came_true() && kept.size() == order->size();
    if (forcing.came_true()) {
      ASSERT_EQ(by_receiver(forced, again.received), by_receiver(forced, recorded.received)) << seed;
      const auto [all, kept_order] = answered_in_order(forced, recorded, again);
      pairs += all;
      answered += kept_order;
    }
    Cluster free(seed + 100'000, false);
    free.run(seed, nullptr);
    differed += by_receiver(forced, free.received) != by_receiver(forced, recorded.received);
  }
  EXPECT_GT(differed, 1000u) << "without force the order is another one";
  EXPECT_GT(pairs, 10'000u);
  EXPECT_GT(static_cast<double>(answered), 0.99 * static_cast<double>(pairs))
      << "what was answered before the next one came is so again";
  EXPECT_LT(whole_impossible, 10u);
  EXPECT_LT(impossible, 150u);
  EXPECT_LT(stood_still, 300u) << "it can nearly always be told what the recorded run had handled";
}

TEST(Minimise, finds_members_none_of_which_can_be_left_out) {
  size_t tests = 0;
  for (uint32_t seed = 0; seed < 2000; seed++) {
    std::mt19937 random(seed);
    std::vector<int> all(1 + random() % 300);
    std::iota(all.begin(), all.end(), 0);
    // Any of some sets is enough.
    std::vector<std::set<int>> enough(1 + random() % 3);
    for (auto& set : enough)
      for (unsigned i = random() % 5; i > 0; i--) set.insert(static_cast<int>(random() % all.size()));
    const auto has = [&](const std::vector<int>& some) {
      const std::set<int> given(some.begin(), some.end());
      return std::ranges::any_of(enough, [&](const auto& set) { return std::ranges::includes(given, set); });
    };
    const std::vector<int> fewest = minimise(all, [&](const std::vector<int>& some) {
      tests++;
      EXPECT_LT(some.size(), all.size());
      EXPECT_TRUE(std::ranges::is_sorted(some));
      return has(some) ? Tried::has : Tried::lacks;
    });
    ASSERT_TRUE(has(fewest)) << seed;
    for (size_t i = 0; fewest.size() > 1 && i < fewest.size(); i++) {
      std::vector<int> less = fewest;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      ASSERT_FALSE(has(less)) << seed;
    }
  }
  EXPECT_LT(tests, 2000u * 60);
}

TEST(Minimise, takes_few_tests_for_few_of_many) {
  std::vector<int> all(10'000);
  std::iota(all.begin(), all.end(), 0);
  size_t tests = 0;
  const std::vector<int> fewest = minimise(all, [&](const std::vector<int>& some) {
    tests++;
    const auto contains = [&](int each) { return std::ranges::binary_search(some, each); };
    return contains(17) && contains(4'000) && contains(9'123) ? Tried::has : Tried::lacks;
  });
  EXPECT_THAT(fewest, ElementsAre(17, 4'000, 9'123));
  EXPECT_LT(tests, 60u);
}

TEST(Minimise, can_be_stopped) {
  const std::vector<int> all{1, 2, 3, 4, 5, 6, 7, 8};
  int left = 3;
  const auto fewest = minimise(all, [&](const std::vector<int>& some) {
    if (!left--) return Tried::stop;
    return !some.empty() && some.front() == 1 ? Tried::has : Tried::lacks;
  });
  EXPECT_THAT(fewest, ElementsAre(1, 2)) << "what was found until then";
}

}  // namespace
}  // namespace friday
