#include "core/base/log.h"

#include <gtest/gtest.h>

namespace friday {
namespace {

LogLevel level(const LogLevels& levels, LogTopic topic) { return levels[static_cast<size_t>(topic)]; }

TEST(Log, IsOffUnlessAskedFor) {
  std::string problem;
  for (LogLevel each : parse_log_levels("", &problem)) EXPECT_EQ(each, LogLevel::off);
  EXPECT_EQ(problem, "");
}

TEST(Log, TakesALevelForAllAndOthersForTopics) {
  std::string problem;
  const LogLevels levels = parse_log_levels("info,mi=trace,,replay=off", &problem);
  EXPECT_EQ(level(levels, LogTopic::mi), LogLevel::trace);
  EXPECT_EQ(level(levels, LogTopic::replay), LogLevel::off);
  EXPECT_EQ(level(levels, LogTopic::record), LogLevel::info);
  EXPECT_EQ(problem, "");
}

TEST(Log, NamesWhatItDoesNotKnow) {
  std::string problem;
  EXPECT_EQ(level(parse_log_levels("gdb=trace,mi=debug", &problem), LogTopic::mi), LogLevel::debug);
  EXPECT_EQ(problem, "`gdb` is no topic; the topics are record, trace, replay, rsp, mi, debug");
  (void)parse_log_levels("mi=loud", &problem);
  EXPECT_EQ(problem, "`loud` is no level; the levels are off, info, debug, trace");
}

TEST(Log, FormatsNothingThatIsOff) {
  if (log_enabled(LogTopic::mi, LogLevel::trace)) GTEST_SKIP() << "machine: FRIDAY_LOG asks for it";
  bool formatted = false;
  FRIDAY_LOG(mi, trace, "{}", (formatted = true));
  EXPECT_FALSE(formatted);
}

}  // namespace
}  // namespace friday
