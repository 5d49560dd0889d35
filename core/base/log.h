// A log for those who work on Friday, or find out why it does something: what it does inside, a line each, on standard
// error or in a file. It is off unless the environment says otherwise, and then a line costs one comparison; nothing is
// formatted. Results, errors and notices never go through it: they belong to whoever called.
//
//   FRIDAY_LOG=info                      of everything what happens rarely: processes, gdbs, orders computed
//   FRIDAY_LOG=mi=trace,replay=debug     topics one by one
//   FRIDAY_LOG_FILE=PATH                 lines are appended to this file instead
//
//   FRIDAY_LOG(mi, trace, "-> {}", line);
//
// Any thread may log; a line is written whole, by one write(2). Of a longer text its first 1000 bytes are written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace friday {

enum class LogTopic : uint8_t { record, trace, replay, rsp, mi, debug };
inline constexpr size_t kLogTopics = 6;
enum class LogLevel : uint8_t { off, info, debug, trace };
std::string_view name_of(LogTopic topic);
std::string_view name_of(LogLevel level);

using LogLevels = std::array<LogLevel, kLogTopics>;
// What the value of FRIDAY_LOG asks for. Words that mean nothing are left out and named in `problem`.
LogLevels parse_log_levels(std::string_view text, std::string* problem);

// As the environment had it when this was first asked.
const LogLevels& log_levels();
inline bool log_enabled(LogTopic topic, LogLevel level) { return log_levels()[static_cast<size_t>(topic)] >= level; }
void log_line(LogTopic topic, LogLevel level, std::string_view text);

}  // namespace friday

#define FRIDAY_LOG(topic, level, ...)                                                                         \
  (::friday::log_enabled(::friday::LogTopic::topic, ::friday::LogLevel::level)                                \
       ? ::friday::log_line(::friday::LogTopic::topic, ::friday::LogLevel::level, ::fmt::format(__VA_ARGS__)) \
       : (void)0)
