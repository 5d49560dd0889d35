// Which orders of messages hold in which runs: compared with what their definitions say, word by word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "core/study/compare.h"
#include "core/study/numbering.h"
#include "core/study/orders.h"
#include "core/study/subsequences.h"
#include "core/study/symptoms.h"
#include "tests/unit/growth.h"
#include "tests/unit/study_support.h"

namespace friday {
namespace {

std::set<size_t> runs_of(RunSet set, size_t runs) {
  std::set<size_t> out;
  for (size_t run = 0; run < runs; run++)
    if (contains(set, run)) out.insert(run);
  return out;
}

bool named(const NamedRun& run, size_t event, uint32_t name) {
  if (run.general[event] == name && name != NamedRun::kNameless) return true;
  for (uint32_t each : run.names_of(event))
    if (each == name) return true;
  return false;
}

bool shaped(const NamedRun& run, size_t event, uint32_t name) {
  return run.shape_of(event) == name || run.general[event] == name;
}

bool has_word(const NamedRun& run, size_t event, uint64_t word) {
  for (uint64_t each : run.words_of(event))
    if (each == word) return true;
  return false;
}

// Whether they come from different partners, and neither may be the one that the other stands for.
bool races(const Naming& naming, uint32_t x, uint32_t y) {
  const uint32_t one = naming.identities[x].partner, other = naming.identities[y].partner;
  if (one == TalkEvent::kOutside || other == TalkEvent::kOutside || one == other) return one != other;
  const auto& [alike, general] = std::tie(naming.general, naming.first_general);
  return (one < general && other < general) || alike[one] != alike[other];
}

// Whether both are sends of one node to one partner.
bool follows(const NamedRun& run, size_t a, size_t b) {
  const TalkEvent &one = run.talk->events[a], &other = run.talk->events[b];
  return one.sent && other.sent && one.node == other.node && one.partner == other.partner &&
         one.partner != TalkEvent::kOutside;
}

// The event that has received what was sent at `a`.
std::optional<size_t> received(const NamedRun& run, size_t a) {
  for (size_t event = 0; event < run.size(); event++)
    if (!run.talk->events[event].sent && run.talk->events[event].message == run.talk->events[a].message) return event;
  return std::nullopt;
}

// The node that has sent what was received at `c`.
std::optional<uint32_t> sender_node(const NamedRun& run, size_t c) {
  for (size_t event = 0; event < run.size(); event++)
    if (run.talk->events[event].sent && run.talk->events[event].message == run.talk->events[c].message)
      return run.talk->events[event].node;
  return std::nullopt;
}

// Whether there is no other such send between them, or none with the word.
bool consecutive(const NamedRun& run, size_t a, size_t b, std::optional<uint64_t> word) {
  for (size_t c = a + 1; c < b; c++)
    if (follows(run, a, c) && (!word || has_word(run, c, *word))) return false;
  return true;
}

// The definitions of orders.h, without any thought of cost.
bool holds(const Naming& naming, const NamedRun& run, const Order& order) {
  const auto& events = run.talk->events;
  const auto is = [&](size_t event, size_t which, bool sent) {
    return !run.tainted[event] && (events[event].sent != 0) == sent && named(run, event, order.names[which]);
  };
  for (size_t a = 0; a < run.size(); a++) {
    if (order.has_one() && named(run, a, order.names[0])) return order.form == Order::Form::content;
    for (size_t b = a + 1; b < run.size(); b++) {
      if (order.form == Order::Form::pair && is(a, 0, false) && is(b, 1, false) &&
          races(naming, order.names[0], order.names[1]))
        return true;
      if (order.form == Order::Form::matter && is(a, 0, false) && is(b, 1, false) &&
          run.shape_of(a) == order.names[0] && run.shape_of(b) == order.names[1])
        for (uint64_t one : run.words_of(a))
          for (uint64_t other : run.words_of(b))
            if (one == other) return true;
      if (!order.has_three() || !named(run, a, order.names[0]) || !is(b, 2, true) || !follows(run, a, b)) continue;
      const auto from = received(run, a), to = received(run, b);
      for (size_t c = 0; c < run.size(); c++) {
        if (!is(c, 1, false) || events[c].node == events[a].node || sender_node(run, c) == events[a].node) continue;
        const bool there = from && to && events[*from].node == events[*to].node && events[c].node == events[*from].node;
        if (there ? c <= *from || c >= *to : c <= a || c >= b) continue;
        if (order.form == Order::Form::between && consecutive(run, a, b, std::nullopt)) return true;
        if (order.form != Order::Form::intrusion || !shaped(run, a, order.names[0]) ||
            !shaped(run, b, order.names[2]) || !shaped(run, c, order.names[1]))
          continue;
        for (uint64_t word : run.words_of(c))
          if (has_word(run, a, word) && has_word(run, b, word) && consecutive(run, a, b, word)) return true;
      }
    }
  }
  return order.form == Order::Form::absence;
}

std::vector<StudiedRun> random_runs(std::mt19937& random, size_t count) {
  std::vector<StudiedRun> runs;
  for (size_t run = 0; run < count; run++) {
    testing::TalkScript script;
    std::vector<uint32_t> nodes;
    for (const char* role : {"web", "web", "cache-1", "cache-2"}) nodes.push_back(script.node(role));
    std::vector<uint64_t> under_way;
    const bool failed = random() % 3 == 0;
    for (size_t i = 0; i < 40; i++) {
      if (!under_way.empty() && random() % 2) {
        const size_t which = random() % under_way.size();
        script.receive(under_way[which]);
        under_way.erase(under_way.begin() + static_cast<long>(which));
        continue;
      }
      const size_t from = random() % 5, to = random() % 4;
      if (from == to) continue;
      const char* texts[] = {"GET k%", "PUT k%", "done", "total %"};
      std::string text = texts[random() % 4];
      if (const size_t at = text.find('%'); at != std::string::npos) text.replace(at, 1, std::to_string(random() % 3));
      if (failed && random() % 20 == 0) text = "error";
      under_way.push_back(script.send(from == 4 ? std::nullopt : std::optional(nodes[from]), nodes[to], text));
    }
    runs.push_back(script.run(static_cast<unsigned>(run + 1), failed));
  }
  return runs;
}

TEST(Numbering, NumbersKeysInTheirOrder) {
  Numbering numbering;
  std::map<uint64_t, uint32_t> known;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; i++) {
    const uint64_t key = (random() % 5000) << (random() % 2 * 40);  // many that differ in high bits only
    EXPECT_EQ(numbering(key), known.try_emplace(key, known.size()).first->second);
  }
  EXPECT_EQ(numbering.count(), known.size());
}

TEST(Orders, HoldWhereTheirDefinitionsSay) {
  std::map<Order::Form, size_t> seen;
  size_t tainted = 0;
  for (unsigned seed = 1; seed <= 10; seed++) {
    std::mt19937 random(seed);
    const auto runs = random_runs(random, 20);
    Naming naming = Naming::of(runs);
    taint(naming);
    for (const NamedRun& run : naming.runs) tainted += static_cast<size_t>(std::ranges::count(run.tainted, true));
    for (const Candidates& candidates : {orders_of(naming), contents_of(naming)})
      for (const Candidate& each : candidates.list) {
        const auto found = runs_of(candidates.sets[each.holds], runs.size());
        for (const Order& order : each.orders) {
          seen[order.form]++;
          std::set<size_t> expected;
          for (size_t run = 0; run < runs.size(); run++) {
            if (holds(naming, naming.runs[run], order)) expected.insert(run);
            const bool is_there = !events_of(naming.runs[run], order).empty();
            ASSERT_EQ(is_there, found.contains(run) && order.form != Order::Form::absence) << "seed " << seed;
          }
          ASSERT_EQ(found, expected) << "seed " << seed << ", form " << static_cast<int>(order.form);
        }
      }
  }
  EXPECT_GT(seen[Order::Form::pair], 1000u);
  EXPECT_GT(seen[Order::Form::matter], 20u);
  EXPECT_GT(seen[Order::Form::between], 200u);
  EXPECT_GT(seen[Order::Form::intrusion], 8u);
  EXPECT_GT(seen[Order::Form::content], 100u);
  EXPECT_GT(seen[Order::Form::absence], 100u);
  EXPECT_GT(tainted, 20u);
}

// All pairs that the definitions know are there.
TEST(Orders, NoneIsMissing) {
  std::mt19937 random(99);
  const auto runs = random_runs(random, 30);
  const Naming naming = Naming::of(runs);
  std::set<std::vector<uint32_t>> known;
  for (const Candidates& candidates = orders_of(naming); const Candidate& each : candidates.list)
    for (const Order& order : each.orders)
      if (order.form == Order::Form::pair) known.insert({order.names[0], order.names[1]});
  size_t missing = 0, racing = 0;
  for (uint32_t x = 0; x < naming.identities.size(); x++)
    for (uint32_t y = 0; y < naming.identities.size(); y++) {
      const Identity &one = naming.identities[x], &other = naming.identities[y];
      if (one.sent || other.sent || one.role != other.role || !races(naming, x, y)) continue;
      size_t with = 0, both = 0;
      for (const NamedRun& run : naming.runs) {
        const auto has = [&](uint32_t name) { return std::ranges::find(run.names, name) != run.names.end(); };
        both += has(x) && has(y);
        with += holds(naming, run, {Order::Form::pair, {x, y}});
      }
      if (with == 0 || with == both || both == 0) continue;  // both == 0: a name of several alike
      racing++;
      missing += !known.contains({x, y});
    }
  EXPECT_GT(racing, 100u);
  EXPECT_EQ(missing, 0u);
}

TEST(Taint, FollowsMessagesAndNodes) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 8; number++) {
    testing::TalkScript script;
    const uint32_t a = script.node("a"), b = script.node("b"), c = script.node("c");
    script.say(a, b, "work");
    script.say(b, a, number <= 4 ? "error: no such key" : "fine");
    script.say(a, c, "next");
    script.say(c, b, "later");
    script.say(std::nullopt, c, "from outside");
    runs.push_back(script.run(number, number <= 4));
  }
  Naming naming = Naming::of(runs);
  const auto symptoms = taint(naming);
  ASSERT_EQ(symptoms.size(), 2u);  // sent and received
  EXPECT_EQ(naming.identities[symptoms[0]].text, "error: no such key");
  EXPECT_THAT(naming.runs[0].tainted, ::testing::ElementsAre(false, false, true, true, true, true, true, true, false));
  EXPECT_THAT(naming.runs[7].tainted, ::testing::Each(false));
}

// A crawler writes a price while a customer looks at it and pays; the run fails if it comes between. Nine other clients
// talk without end.
std::vector<StudiedRun> bookings(unsigned seed, size_t count, bool shuffled = false) {
  std::mt19937 random(seed);
  std::vector<StudiedRun> runs;
  for (size_t run = 0; run < count; run++) {
    testing::TalkScript script;
    const uint32_t shop = script.node("shop"), cache = script.node("cache"), crawler = script.node("crawler");
    std::vector<uint32_t> others;
    for (int i = 0; i < 9; i++) others.push_back(script.node(fmt::format("client{}", i)));
    const auto chat = [&] {
      for (size_t i = random() % 4; i > 0; i--)
        script.say(others[random() % 9], random() % 2 ? shop : cache, fmt::format("ping {}", random() % 1000));
    };
    const size_t when = random() % 4;
    const auto crawl = [&](size_t step) {
      if (when == step) script.say(crawler, cache, fmt::format("PUT f1 {}", random() % 900));
    };
    crawl(0), chat();
    script.say(shop, cache, "search f1");
    crawl(1), chat();
    script.say(shop, cache, "reserve f1");
    crawl(2), chat();
    crawl(3);
    const bool failed = shuffled ? random() % 4 == 0 : when == 1;
    if (failed && !shuffled) script.say(shop, cache, "wrong price");
    runs.push_back(script.run(static_cast<unsigned>(run + 1), failed));
  }
  return runs;
}

TEST(Compare, AnOrderBetweenTwoStepsIsFoundFirst) {
  const auto runs = bookings(3, 50);
  const Comparison comparison = compare(runs, 5);
  ASSERT_EQ(comparison.verdict, Comparison::Verdict::order);
  const Finding& first = comparison.orders[0];
  EXPECT_EQ(first.p <= kMostP, true);
  EXPECT_EQ(first.split.failing_without, 0u);
  EXPECT_EQ(first.split.passing_with, 0u);
  std::vector<Order> all = first.alike;
  all.push_back(first.order);
  EXPECT_TRUE(std::ranges::any_of(all, [&](const Order& order) {
    return order.form == Order::Form::between && comparison.naming.identities[order.names[1]].text.starts_with("PUT f");
  }));
  EXPECT_EQ(first.failing.size(), 3u);
  EXPECT_TRUE(runs[first.failing[0]].failed);
}

TEST(Compare, WhereFailuresFallByChanceHardlyAnythingIsClaimed) {
  size_t claims = 0;
  for (unsigned seed = 1; seed <= 20; seed++)
    claims += compare(bookings(seed, 50, true), 5).verdict == Comparison::Verdict::order;
  EXPECT_LE(claims, 1u);
}

TEST(Compare, AMessageIsNamedWhereNoOrderMatters) {
  std::mt19937 random(5);
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 60; number++) {
    testing::TalkScript script;
    const uint32_t shop = script.node("shop"), cache = script.node("cache");
    const bool failed = random() % 4 == 0;
    for (int i = 0; i < 6; i++)
      script.say(random() % 2 ? std::optional(shop) : std::nullopt, cache, fmt::format("ping {}", i % 2));
    script.say(shop, cache, failed ? "rate -3" : "rate 17");
    script.say(cache, shop, failed ? "bad rate" : "ok");
    runs.push_back(script.run(number, failed));
  }
  const Comparison comparison = compare(runs, 5);
  ASSERT_EQ(comparison.verdict, Comparison::Verdict::content);
  EXPECT_EQ(comparison.naming.identities[comparison.contents[0].order.names[0]].text, "rate -#");
}

// Failing runs wait for an answer that does not come, while the clock ticks.
TEST(Compare, WhoWaitsLongerIsNotTheCause) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 40; number++) {
    testing::TalkScript script;
    const uint32_t server = script.node("server"), clock = script.node("clock"), loader = script.node("loader");
    const bool failed = number % 4 == 0;
    script.say(clock, server, "beat");
    script.say(loader, server, "load");
    for (int i = 0; i < (failed ? 30 : 0); i++) script.say(clock, server, "beat");
    runs.push_back(script.run(number, failed));
  }
  const Comparison comparison = compare(runs, 5);
  EXPECT_EQ(comparison.verdict, Comparison::Verdict::nothing);
  EXPECT_TRUE(comparison.orders.empty());
}

// A failing run whose programs were slow to begin has its order all the same.
TEST(Compare, WhoBeginsLateCounts) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 40; number++) {
    testing::TalkScript script;
    const uint32_t server = script.node("server"), first = script.node("first"), second = script.node("second");
    const bool failed = number % 4 == 0;
    script.say(failed ? second : first, server, failed ? "second" : "first");
    script.say(failed ? first : second, server, failed ? "first" : "second");
    runs.push_back(script.run(number, failed, number % 8 == 0 ? 1'000'000'000 : 0));
  }
  const Comparison comparison = compare(runs, 5);
  ASSERT_EQ(comparison.verdict, Comparison::Verdict::order);
  EXPECT_EQ(comparison.orders[0].split.failing_with, 10u);
  EXPECT_TRUE(comparison.contents.empty());
}

TEST(Compare, AMessageThatIsMissingIsNamed) {
  std::mt19937 random(8);
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 40; number++) {
    testing::TalkScript script;
    const uint32_t shop = script.node("shop"), cache = script.node("cache");
    const bool failed = number % 3 == 0;
    for (int i = 0; i < 4; i++) script.say(random() % 2 ? std::optional(shop) : std::nullopt, cache, "ping");
    if (!failed) script.say(shop, cache, "lock the price");
    script.say(shop, cache, "sell");
    runs.push_back(script.run(number, failed));
  }
  const Comparison comparison = compare(runs, 5);
  ASSERT_EQ(comparison.verdict, Comparison::Verdict::content);
  EXPECT_EQ(comparison.contents[0].order.form, Order::Form::absence);
  EXPECT_EQ(comparison.naming.identities[comparison.contents[0].order.names[0]].text, "lock the price");
}

TEST(Compare, WhatIsClaimedDoesNotDependOnHowMuchIsShown) {
  const auto runs = bookings(3, 50);
  for (size_t most : {1, 2, 50}) EXPECT_EQ(compare(runs, most).verdict, Comparison::Verdict::order);
}

// Two updates of two workers of one role: each reads, then each writes.
TEST(Compare, WorkersOfOneRoleAreToldApart) {
  std::mt19937 random(4);
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 60; number++) {
    testing::TalkScript script;
    const uint32_t one = script.node("web/child"), other = script.node("web/child"), store = script.node("store");
    const bool failed = random() % 4 == 0;
    script.say(one, store, "get k1");
    if (failed) script.say(other, store, "get k1");
    script.say(one, store, "put k1");
    if (!failed) script.say(other, store, "get k1");
    script.say(other, store, "put k1");
    runs.push_back(script.run(number, failed));
  }
  const Comparison comparison = compare(runs, 5);
  ASSERT_EQ(comparison.verdict, Comparison::Verdict::order);
  EXPECT_TRUE(comparison.orders[0].order.has_three());
}

// A literal "#" and a number have the same mask.
TEST(Naming, NumbersAndNumberSignsAreFields) {
  for (const auto& [first, second] : {std::pair("#chan hello", "7chan hello"), std::pair("7 a#", "# a1")}) {
    std::vector<StudiedRun> runs;
    for (unsigned number = 1; number <= 4; number++) {
      testing::TalkScript script;
      const uint32_t a = script.node("a"), b = script.node("b");
      script.say(a, b, number % 2 ? first : second);
      script.say(a, b, number % 2 ? second : first);
      runs.push_back(script.run(number, number > 2));
    }
    EXPECT_EQ(Naming::of(runs).runs[0].shape_of(0), Naming::of(runs).runs[0].shape_of(2));
  }
}

TEST(Naming, OnlyNumbersOfRolesAreLeftOutOfTheirNames) {
  std::vector<StudiedRun> runs;
  testing::TalkScript script;
  const uint32_t a = script.node("orderservice1"), b = script.node("stockservice1"), c = script.node("orderservice2");
  script.say(a, b, "x"), script.say(b, c, "x");
  runs.push_back(script.run(1, false));
  const Naming naming = Naming::of(runs);
  ASSERT_EQ(naming.roles.size(), 4u);
  EXPECT_EQ(naming.roles[naming.first_general], "orderservice#");
  EXPECT_EQ(naming.general[1], 1u);  // stockservice1 stands alone
}

// "a b c" in all failing runs and "a c" in all passing ones, with noise around that no two runs share.
TEST(Anomalies, AreWhatIsCommonToTheRunsOfOneKind) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 1; number <= 8; number++) {
    testing::TalkScript script;
    const uint32_t a = script.node("a"), b = script.node("b");
    const bool failed = number <= 4;
    script.say(a, b, "first");
    script.say(a, b, std::string("noise ") + static_cast<char>('a' + number));
    if (failed || number == 5) script.say(a, b, "second");  // in one passing run, too
    script.say(a, b, "last");
    if (!failed) script.say(a, b, "all is well");
    runs.push_back(script.run(number, failed));
  }
  const Naming naming = Naming::of(runs);
  const auto anomalies = anomalies_of(naming);
  ASSERT_EQ(anomalies.size(), 4u);  // sent and received
  for (const Anomaly& each : anomalies) {
    const std::string& text = naming.identities[each.name].text;
    EXPECT_EQ(each.occurrence, 1u);
    EXPECT_EQ(text, each.of_failing ? "second" : "all is well");
    EXPECT_EQ(each.split.passing_with, each.of_failing ? 1u : 4u);
  }
  EXPECT_NEAR(anomalies[0].weight, 1, 1e-9);  // all four runs with "all is well" passed
  EXPECT_LT(anomalies[3].weight, 0.6);
}

TEST(Compare, SaysWhenThereIsNothingToCompare) {
  EXPECT_EQ(compare({}, 5).verdict, Comparison::Verdict::all_passed);
  auto runs = bookings(1, 10);
  for (StudiedRun& run : runs) run.failed = true;
  EXPECT_EQ(compare(runs, 5).verdict, Comparison::Verdict::all_failed);
  for (size_t i = 0; i < runs.size(); i++) runs[i].failed = i == 0;
  EXPECT_EQ(compare(runs, 5).verdict, Comparison::Verdict::too_few);
}

// The bug shows in half of the runs with that order only.
TEST(Compare, SomeRunsAreTooFewAndItSaysHowManyAreNot) {
  size_t too_few = 0;
  for (unsigned seed = 1; seed <= 10; seed++) {
    std::mt19937 random(seed);
    auto runs = bookings(seed, 24);
    for (StudiedRun& run : runs) run.failed = run.failed && random() % 2 == 0;
    const Comparison comparison = compare(runs, 5);
    if (comparison.verdict == Comparison::Verdict::order || comparison.failures == 0) continue;
    if (comparison.needed_runs == 0) continue;  // strong enough, but in two runs only
    too_few++;
    EXPECT_GT(comparison.needed_runs, 24u) << seed;
    EXPECT_LT(comparison.needed_runs, 150u) << seed;
  }
  EXPECT_GT(too_few, 0u);
}

// A file with a right checksum may still say anything: times that fall, messages that are received before they are
// sent, or many times, nodes of several roles.
TEST(Compare, WhateverAFileSaysIsCompared) {
  const char* texts[] = {
      "", "#", "1#2", "key 1", "key 22", "\x01\x02\x03\x04", "*1\r\n$3\r\nGET\r\n", "GET /a7 HTTP/1.1\r\n\r\n#"};
  for (unsigned seed = 1; seed <= 100; seed++) {
    std::mt19937 random(seed);
    std::vector<StudiedRun> runs;
    for (unsigned number = 1; number <= 8; number++) {
      StudiedRun run{number, random() % 2 == 0, {}};
      for (size_t i = 0; i <= random() % 5; i++) run.talk.roles.push_back(fmt::format("{}{}", i % 2 ? "a" : "b-#", i));
      for (const char* text : texts) run.talk.texts.emplace_back(text);
      for (size_t i = random() % 60; i > 0; i--) {
        TalkEvent event;
        event.role = static_cast<uint32_t>(random() % run.talk.roles.size());
        if (random() % 4) event.partner = static_cast<uint32_t>(random() % run.talk.roles.size());
        if (random() % 6) event.text = static_cast<uint32_t>(random() % run.talk.texts.size());
        event.node = random() % 6;
        event.message = random() % 20;
        event.length = random() % 3 ? random() % 10 : random();
        event.ns = static_cast<int64_t>(random()) - 1'000'000'000;
        event.sent = random() % 2;
        run.talk.events.push_back(event);
      }
      runs.push_back(std::move(run));
    }
    const Comparison comparison = compare(runs, 1000);
    for (const auto* findings : {&comparison.orders, &comparison.contents})
      for (const Finding& finding : *findings) {
        EXPECT_GE(comparison.failures, finding.split.failing_with + finding.split.failing_without) << seed;
        EXPECT_EQ(finding.failing.empty(), finding.split.failing_with == 0) << seed;
      }
    (void)anomalies_of(comparison.naming);
  }
}

TEST(Compare, TakesNoMoreThanTheNumberOfEvents) {
  const auto compare_with = [](uint64_t size) {
    std::vector<StudiedRun> runs;
    for (unsigned number = 1; number <= 6; number++) {
      testing::TalkScript script;
      const uint32_t a = script.node("a"), b = script.node("b"), c = script.node("c");
      std::mt19937 random(number);
      for (uint64_t i = 0; i < size; i++) {
        const uint32_t from = random() % 2 ? a : b;
        script.say(from, c, fmt::format("put {} to {}", random() % 100000, random() % 4));
        script.say(c, from, "ok");
      }
      runs.push_back(script.run(number, number <= 3));
    }
    (void)compare(runs, 3);
  };
  EXPECT_LT(testing::growth(500, compare_with), testing::kMostGrowth);
}

// Each key twice, far apart, and all by one client: what lies between them is most of the run.
TEST(Compare, KeysThatComeBackLateTakeNoMore) {
  const auto compare_with = [](uint64_t size) {
    std::vector<StudiedRun> runs;
    for (unsigned number = 1; number <= 4; number++) {
      testing::TalkScript script;
      const uint32_t a = script.node("a"), b = script.node("b"), c = script.node("c");
      std::mt19937 random(number);
      for (uint64_t i = 0; i < size; i++) {
        script.say(a, c, fmt::format("get key{}", 1000 + i % (size / 2)));
        if (i % 7 == 0) script.say(b, c, fmt::format("set key{}", 1000 + random() % size));
      }
      runs.push_back(script.run(number, number <= 2));
    }
    (void)compare(runs, 3);
  };
  EXPECT_LT(testing::growth(500, compare_with), testing::kMostGrowth);
}

}  // namespace
}  // namespace friday
