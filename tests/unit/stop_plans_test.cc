#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "core/stop/chain.h"
#include "core/stop/plan.h"
#include "tests/unit/stop_support.h"

namespace friday {
namespace {

const std::vector<std::string> scalars = {"counter",
                                          "big",
                                          "small",
                                          "huge",
                                          "flag",
                                          "colour",
                                          "-counter",
                                          "~counter",
                                          "!flag",
                                          "counter + 5",
                                          "big + 1u",
                                          "small << 3",
                                          "huge >> 7",
                                          "counter >> 1",
                                          "big / 7",
                                          "big % 7",
                                          "counter / 2",
                                          "counter % 2",
                                          "counter * -4",
                                          "counter < 0",
                                          "big < 5",
                                          "counter == -3 && small > 199",
                                          "counter == 3 || small == 200",
                                          "flag ? big : small",
                                          "counter & 0xff",
                                          "counter | 8",
                                          "counter ^ 0x55",
                                          "(char)small",
                                          "(short)big",
                                          "(unsigned char)counter",
                                          "sizeof(object)",
                                          "head->value",
                                          "head->next->value",
                                          "head->next->next->value",
                                          "head->low",
                                          "head->middle",
                                          "n4.high",
                                          "n1.high",
                                          "head->next",
                                          "&head->next->value",
                                          "n4.next == &n5",
                                          "table[2][1]",
                                          "table[small - 199][3]",
                                          "*(table[1] + 2)",
                                          "text[3]",
                                          "*message",
                                          "message",
                                          "object.row[1]",
                                          "object.letter",
                                          "object.base_member",
                                          "object.whole",
                                          "object.parts[2]",
                                          "object.alias",
                                          "local",
                                          "factor",
                                          "narrow",
                                          "*cursor",
                                          "cursor[1]",
                                          "cursor[-1]",
                                          "local + narrow",
                                          "this->row[4]",
                                          "row[0]",
                                          "letter",
                                          "factor > 6 ? local : 0",
                                          "&counter",
                                          "(long)&table[1]",
                                          "callback",
                                          "$rip != 0",
                                          "huge == 0xfedcba9876543210",
                                          "huge < 1",
                                          "(long)huge < 1",
                                          "colour == blue",
                                          "colour == 5",
                                          "red < colour",
                                          "colour != red || flag == false",
                                          "flag == true && colour > green",
                                          "colour & 4",
                                          "object.letter == 'x'",
                                          "callback == 0",
                                          "head->low == 5 && colour == blue",
                                          "*message == 'h'",
                                          "(char)colour == blue",
                                          "state == State::on",
                                          "state != State::off && flag",
                                          "*chosen == green",
                                          "level > low_level",
                                          "counter == colour",
                                          "colour>green",
                                          "2 *colour",
                                          "small>*chosen"};
const std::vector<std::string> objects = {"object.real", "ratio", "text",        "table",
                                          "table[1]",    "n4",    "*head->next", "object.row"};
const std::vector<std::string> links = {"head",           "head->next", "head->next->value",
                                        "n3.next->value", "n2.low",     "counter + 1"};

struct Answer {
  ExpressionPlan plan;
  std::string bytes, error;
};

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// Asks one gdb for the plans of all expressions, and for their values in its own copy of the program.
std::map<std::string, Answer> ask_gdb() {
  std::map<std::string, Answer> answers;
  char list[] = "/tmp/friday-stop-expressions-XXXXXX";
  close(mkstemp(list));
  std::ofstream file(list);
  for (const auto* group : {&scalars, &objects, &links})
    for (const std::string& expression : *group) file << expression << '\n';
  file.close();
  setenv("FRIDAY_EXPRESSIONS", list, 1);
  setenv("FRIDAY_GDB_SCRIPT", FRIDAY_GDB_SCRIPT, 1);
  FILE* gdb =
      popen("gdb -nx -batch -ex 'break *stop_place' -ex run -x '" STOP_PLANS_SCRIPT "' '" STOP_VALUES "' 2>&1", "r");
  std::string output;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, gdb)) > 0;) output.append(buffer, got);
  pclose(gdb);
  unlink(list);
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("PLAN ")) continue;
    auto json = nlohmann::json::parse(line.substr(5));
    auto plan = parse_plan(json.at("plan").get<std::string>());
    EXPECT_TRUE(plan) << line;
    if (plan)
      answers[json.at("expression")] = {*plan, json.value("bytes", std::string()), json.value("error", std::string())};
  }
  EXPECT_FALSE(answers.empty()) << output;
  return answers;
}

const std::map<std::string, Answer>& gdb_answers() {
  static const auto answers = ask_gdb();
  return answers;
}

std::shared_ptr<const ExpressionPlan> plan_of(const std::string& expression) {
  return std::make_shared<const ExpressionPlan>(gdb_answers().at(expression).plan);
}

TEST(Plans, GiveGdbsOwnValues) {
  Debuggee program({STOP_VALUES});
  program.run_to(program.symbol("stop_place"));
  for (const auto* group : {&scalars, &objects})
    for (const std::string& expression : *group) {
      ASSERT_TRUE(gdb_answers().contains(expression)) << expression;
      const Answer& answer = gdb_answers().at(expression);
      ASSERT_NE(answer.plan.kind, ExpressionPlan::Kind::gdb) << expression;
      auto value = evaluate(answer.plan, program.node, program.thread);
      ASSERT_TRUE(value) << expression << ": " << describe(value.error());
      EXPECT_EQ(hex(value->bytes), answer.bytes) << expression;
    }
}

TEST(Plans, KnowPlacesAndTypes) {
  Debuggee program({STOP_VALUES});
  program.run_to(program.symbol("stop_place"));
  auto place = evaluate_place(*plan_of("n2.low"), program.node, program.thread);
  ASSERT_TRUE(place) << describe(place.error());
  EXPECT_EQ(place->address.value, program.symbol("n2") + 16);
  EXPECT_EQ(place->bits, 3u);
  EXPECT_EQ(evaluate_place(*plan_of("counter + 1"), program.node, program.thread).error().code, ErrorCode::unsupported);
  const PlanType& link = gdb_answers().at("n4").plan.result_type();
  EXPECT_EQ(link.kind, TypeKind::structure);
  ASSERT_EQ(link.fields.size(), 5u);
  EXPECT_EQ(link.fields[3].name, "middle");
  EXPECT_EQ(link.fields[3].bits, 7u);
  EXPECT_EQ(plan_of("text")->result_type().count, 16u);
  EXPECT_TRUE(plan_of("text")->result_type().character);
  EXPECT_EQ(plan_of("ratio")->result_type().format, PlanType::Float::ieee32);
}

TEST(Plans, ABadAddressIsNamed) {
  Debuggee program({STOP_VALUES});
  program.run_to(program.symbol("stop_place"));
  auto value = evaluate(*plan_of("n3.next->value"), program.node, program.thread);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::bad_address);
  EXPECT_EQ(value.error().message, "n3.next->value: cannot read 8 bytes at 0x0");
}

TEST(Plans, RefuseWhatIsNoPlan) {
  EXPECT_FALSE(parse_plan("not json"));
  EXPECT_FALSE(parse_plan("{}"));
  EXPECT_FALSE(parse_plan(R"({"kind":"agent","expression":"x","agent":"2g","result":"value","place":null,"registers":[],
    "type":0,"types":[{"kind":"int","name":"int","size":4}]})"));
  EXPECT_FALSE(parse_plan(R"({"kind":"agent","expression":"x","agent":"27","result":"value","place":null,"registers":[],
    "type":1,"types":[{"kind":"int","name":"int","size":4}]})"));
}

// Runs change_chain() with one expression armed and returns the value after each change of it.
std::vector<std::string> chain_values(const std::string& expression, size_t& changes) {
  Debuggee program({STOP_VALUES});
  program.run_to(program.symbol("start_marker"));
  ChainWatch chain(StopPointId{3}, plan_of(expression), 10);
  auto armed = chain.arm(program.node, program.thread, program.watches);
  EXPECT_TRUE(armed) << describe(armed.error());
  std::vector<std::string> values;
  program.on_watch = [&](const FaultOutcome& fault) {
    auto change = chain.update(fault.hits, program.node, program.thread, program.watches);
    ASSERT_TRUE(change) << describe(change.error());
    if (!*change) return;
    ++changes;
    if ((*change)->value_changed) values.push_back((*change)->new_value ? hex(*(*change)->new_value) : "undefined");
  };
  program.run_to(program.symbol("end_marker"));
  return values;
}

TEST(Chain, FollowsEveryLink) {
  size_t changes = 0;
  auto values = chain_values("head->next->value", changes);
  EXPECT_EQ(values, (std::vector<std::string>{"0b00000000000000", "1e00000000000000", "undefined", "6300000000000000",
                                              "undefined", "6300000000000000"}));
  EXPECT_EQ(changes, 8u);  // two more: to another object with the same value, and from NULL to a wild pointer
}

TEST(Chain, OfABitFieldLooksAtItsBitsOnly) {
  size_t changes = 0;
  EXPECT_EQ(chain_values("n2.low", changes), std::vector<std::string>{"01000000"});
}

}  // namespace
}  // namespace friday
