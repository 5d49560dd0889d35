// The parser against captures of a real gdb 13 (tests/mi_captures/*.mi, made by capture.py there) and against damaged
// lines. NAME.expected has one line a record. FRIDAY_UPDATE_CAPTURES=1 writes it anew, for reading and committing.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/mi/parser.h"
#include "core/mi/typed.h"

namespace friday {
namespace {

std::string capture(const std::string& name) {
  auto text = read_file(fmt::format("{}/{}", MI_CAPTURES, name));
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

std::vector<MiRecord> parse(std::string_view text, size_t step) {
  MiParser parser;
  std::vector<MiRecord> records;
  for (size_t at = 0; at < text.size(); at += step) parser.feed(text.substr(at, step), records);
  return records;
}

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(MI_CAPTURES))
    if (entry.path().extension() == ".mi") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

ResultRecord result_of(const std::string& name, uint64_t token) {
  for (MiRecord& record : parse(capture(name + ".mi"), SIZE_MAX))
    if (auto* result = std::get_if<ResultRecord>(&record); result && result->token == token) return *result;
  ADD_FAILURE() << name << " has no answer to " << token;
  return {};
}

std::vector<MiStop> stops_of(const std::string& name) {
  std::vector<MiStop> stops;
  for (MiRecord& record : parse(capture(name + ".mi"), SIZE_MAX))
    if (auto* async = std::get_if<AsyncRecord>(&record))
      if (auto stop = stop_of(*async)) stops.push_back(*stop);
  return stops;
}

class Captures : public testing::TestWithParam<std::string> {};

TEST_P(Captures, capture_gives_the_expected_records_for_any_split) {
  std::string text = capture(GetParam() + ".mi");
  std::vector<MiRecord> whole = parse(text, SIZE_MAX);
  ASSERT_FALSE(whole.empty());
  std::string printed;
  for (const MiRecord& record : whole) printed += to_string(record) + "\n";

  std::string path = fmt::format("{}/{}.expected", MI_CAPTURES, GetParam());
  if (std::getenv("FRIDAY_UPDATE_CAPTURES")) std::ofstream(path) << printed;
  EXPECT_EQ(printed, capture(GetParam() + ".expected"));
  for (size_t step : {1u, 2u, 7u, 4096u}) EXPECT_TRUE(parse(text, step) == whole) << "fed in pieces of " << step;
}

INSTANTIATE_TEST_SUITE_P(All, Captures, testing::ValuesIn(capture_names()),
                         [](const auto& info) { return info.param; });

TEST(MiParserTest, only_a_program_that_shares_the_pipe_is_no_record_in_real_captures) {
  for (const std::string& name : capture_names()) {
    if (name == "damaged") continue;
    for (const MiRecord& record : parse(capture(name + ".mi"), SIZE_MAX))
      if (auto* error = std::get_if<MiParseError>(&record)) {
        EXPECT_EQ(error->line, "3906 3") << name;
      }
  }
}

TEST(MiParserTest, an_error_keeps_line_and_column) {
  MiRecord record = parse_mi_line("17^done,x={a=\"1\",b]");
  auto* error = std::get_if<MiParseError>(&record);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->line, "17^done,x={a=\"1\",b]");
  EXPECT_EQ(error->column, 18u);
  EXPECT_EQ(error->message, "expected '='");
}

TEST(MiParserTest, deep_nesting_is_an_error_not_a_crash) {
  std::string line = "1^done,x=" + std::string(1'000'000, '{');
  EXPECT_TRUE(std::holds_alternative<MiParseError>(parse_mi_line(line)));
  std::string good = "1^done,x=" + std::string(100, '[') + std::string(100, ']');
  EXPECT_TRUE(std::holds_alternative<ResultRecord>(parse_mi_line(good)));
}

TEST(MiParserTest, every_truncation_and_flip_of_a_real_line_is_handled) {
  std::string text = capture("breakpoints_mi2.mi");
  for (size_t length = 0; length < text.size(); length += 3) parse(text.substr(0, length) + "\n", SIZE_MAX);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    parse(flipped, SIZE_MAX);
  }
}

TEST(MiParserTest, quoting_is_read_back) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  MiRecord record = parse_mi_line("~" + mi_quote(all));
  ASSERT_TRUE(std::holds_alternative<StreamRecord>(record));
  EXPECT_EQ(std::get<StreamRecord>(record).text, all);
}

TEST(MiTypedTest, breakpoints_are_the_same_in_the_new_and_the_old_form) {
  for (const char* name : {"breakpoints", "breakpoints_mi2"}) {
    auto inserted = breakpoints_of(result_of(name, 3).fields);
    ASSERT_EQ(inserted.size(), 1u) << name;
    ASSERT_EQ(inserted[0].locations.size(), 2u) << name;
    EXPECT_EQ(inserted[0].locations[1].number, "1.2");
    EXPECT_EQ(inserted[0].locations[1].function, "overloaded(double)");
    EXPECT_EQ(inserted[0].locations[1].line, 76u);
    EXPECT_EQ(inserted[0].locations[1].address, Addr{0x116e});

    auto table = breakpoints_of(result_of(name, 12).fields);
    ASSERT_EQ(table.size(), 6u) << name;
    EXPECT_EQ(table[0].locations.size(), 2u);
    EXPECT_EQ(table[1].locations.size(), 3u);
    EXPECT_FALSE(table[1].enabled);
    EXPECT_TRUE(table[2].pending);
    EXPECT_TRUE(table[2].locations.empty());
    EXPECT_EQ(table[3].condition, "parameter > 2");
    EXPECT_EQ(table[3].locations.size(), 1u);
    EXPECT_EQ(table[4].what, "srv.id");
    EXPECT_EQ(table[5].type, "acc watchpoint");
  }
}

TEST(MiTypedTest, stops_of_every_kind) {
  auto stops = stops_of("stops");
  ASSERT_EQ(stops.size(), 8u);
  EXPECT_EQ(stops[0].reason, MiStopReason::breakpoint_hit);
  EXPECT_EQ(stops[0].breakpoint, 1u);
  EXPECT_TRUE(stops[0].all_threads);
  EXPECT_EQ(stops[1].reason, MiStopReason::watchpoint_trigger);
  EXPECT_EQ(stops[1].watch_expression, "local");
  EXPECT_EQ(stops[1].old_value, "0");
  EXPECT_EQ(stops[1].new_value, "6");
  EXPECT_EQ(stops[1].thread, 1u);
  EXPECT_EQ(stops[2].reason, MiStopReason::end_stepping_range);
  EXPECT_EQ(stops[5].reason, MiStopReason::watchpoint_scope);  // gdb gives two reasons at once; the first counts
  EXPECT_EQ(stops[5].breakpoint, 2u);
  ASSERT_TRUE(stops[5].frame);
  EXPECT_EQ(stops[5].frame->function, "main");
  EXPECT_EQ(stops[5].frame->line, 93u);
  EXPECT_EQ(stops[7].reason, MiStopReason::exited);
  EXPECT_EQ(stops[7].exit_code, 0);

  auto faults = stops_of("faults");
  ASSERT_EQ(faults.size(), 5u);
  EXPECT_EQ(faults[0].reason, MiStopReason::exited);
  EXPECT_EQ(faults[0].exit_code, 42);
  EXPECT_EQ(faults[1].reason, MiStopReason::signal_received);
  EXPECT_EQ(faults[1].signal, "SIGABRT");
  EXPECT_EQ(faults[2].reason, MiStopReason::exited_signalled);
  EXPECT_EQ(faults[3].signal_meaning, "Segmentation fault");
}

TEST(MiTypedTest, frames_and_threads) {
  auto threads = threads_of(result_of("stack", 4));
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads[0].name, "mi_types_O0");
  EXPECT_EQ(threads[0].state, "stopped");
  EXPECT_TRUE(threads[0].current);
  auto frames = frames_of(result_of("stack", 5));
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].function, "inspect");
  EXPECT_EQ(frames[1].level, 1u);
  EXPECT_EQ(frames[1].full_name, "/src/types.cc");
}

TEST(MiTypedTest, errors_and_values) {
  EXPECT_EQ(error_of(result_of("errors", 1)).code, ErrorCode::usage);
  EXPECT_EQ(error_of(result_of("errors", 2)).code, ErrorCode::not_found);
  EXPECT_EQ(error_of(result_of("errors", 4)).code, ErrorCode::bad_address);
  EXPECT_EQ(value_of(result_of("errors", 4)).error().message, "Cannot access memory at address 0x8");
  EXPECT_EQ(value_of(result_of("strings", 2)).value(),
            "0x2008 \"tab\\t quote\\\" backslash\\\\ \\001\\002 \303\251 \\377\"");
  EXPECT_FALSE(value_of(result_of("strings", 1)));
}

}  // namespace
}  // namespace friday
