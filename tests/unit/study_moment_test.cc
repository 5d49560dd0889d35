// Where the messages of a finding's order are in a run.
#include "core/study/moment.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/unit/study_support.h"

namespace friday {
namespace {

using testing::TalkScript;

// A customer looks at a price and reserves. In failing runs a new price comes between.
StudiedRun booking(unsigned number, bool failed) {
  TalkScript script;
  const uint32_t web = script.node("web"), crawler = script.node("crawler"), redis = script.node("redis");
  if (!failed) script.say(crawler, redis, "SET price 7");
  script.say(web, redis, "GET price first");
  script.say(redis, web, "the price");
  if (failed) script.say(crawler, redis, "SET price 7");
  script.say(web, redis, "GET price again");
  script.say(redis, web, "the price once more");
  return script.run(number, failed);
}

std::string text_at(const Talk& talk, std::optional<size_t> event) {
  return event ? talk.texts[talk.events[*event].text] : "none";
}

TEST(Moment, EachMessageOfAnOrder) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 0; number < 20; number++) runs.push_back(booking(number, number % 2));
  const Naming naming = Naming::of(runs);
  const auto name = [&](bool sent, const std::string& text) {
    const auto found = std::ranges::find_if(
        naming.identities, [&](const Identity& each) { return each.sent == sent && each.text == text; });
    return static_cast<uint32_t>(found - naming.identities.begin());
  };
  const Order order{Order::Form::between,
                    {name(true, "GET price first"), name(false, "SET price #"), name(true, "GET price again")}};
  ASSERT_LT(*std::ranges::max_element(order.names), naming.identities.size());
  const auto text = [&](const StudiedRun& run, size_t message) {
    return text_at(run.talk, moment_in(run.talk, naming, order, run.failed, message));
  };
  EXPECT_EQ(text(runs[1], 0), "GET price first");
  EXPECT_EQ(text(runs[1], 1), "SET price 7");
  EXPECT_EQ(text(runs[1], 2), "GET price again");
  EXPECT_EQ(text(runs[0], 0), "GET price first");
  EXPECT_EQ(text(runs[0], 1), "SET price 7") << "the first of the run, as there is none between";
  EXPECT_EQ(text(runs[0], 2), "GET price again");
}

// Numbers that are drawn by chance come again in no other run, though some runs have them.
TEST(Naming, WhatCanBeReliedUpon) {
  std::vector<StudiedRun> runs;
  for (unsigned number = 0; number < 20; number++) {
    TalkScript script;
    const uint32_t mover = script.node("mover"), bank = script.node("bank");
    script.say(mover, bank, number % 2 ? "PUT ann 14" : "PUT ann 15");
    script.say(mover, bank, "GET bob 1");
    script.say(mover, bank, number % 5 ? "GET bob 2" : "GET bob 3");
    runs.push_back(script.run(number, number < 3));
  }
  const Naming naming = Naming::of(runs);
  const auto is_relied_upon = [&](const std::string& text, size_t field) {
    return naming.has_relied_value(shape_of(text, text.size()), field);
  };
  EXPECT_FALSE(is_relied_upon("PUT ann 14", 0)) << "in half of the runs, and not in all that failed";
  EXPECT_FALSE(is_relied_upon("PUT ann 15", 0));
  EXPECT_TRUE(is_relied_upon("GET bob 1", 0));
  EXPECT_TRUE(is_relied_upon("GET bob 2", 0)) << "in four of five runs";
  EXPECT_FALSE(is_relied_upon("GET bob 3", 0));
  for (StudiedRun& run : runs) run.failed = run.number % 2 && run.number < 10;
  EXPECT_TRUE(Naming::of(runs).has_relied_value(shape_of("PUT ann 14", 10), 0)) << "in all that failed";
}

}  // namespace
}  // namespace friday
