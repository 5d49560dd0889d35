#include "core/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "core/base/printable.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, kLogTopics> kTopics = {"record", "trace", "replay", "rsp", "mi", "debug"};
constexpr std::array<std::string_view, 4> kLevels = {"off", "info", "debug", "trace"};

template <typename Enum, size_t count>
std::optional<Enum> named(const std::array<std::string_view, count>& names, std::string_view name) {
  for (size_t i = 0; i < count; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

template <size_t count>
std::string listed(const std::array<std::string_view, count>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// Where lines go: a file that is opened once and stays open, or standard error.
int output() {
  static const int fd = [] {
    const char* path = std::getenv("FRIDAY_LOG_FILE");
    const int file = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    return file < 0 ? STDERR_FILENO : file;
  }();
  return fd;
}

constexpr size_t kLongestText = 1000;

void write_line(std::string_view from, std::string_view text) {
  static const Clock::time_point start = Clock::now();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const size_t cut = text.size() > kLongestText ? text.size() - kLongestText : 0;
  const std::string line =
      fmt::format("friday[{}] {:.6f} {}: {}{}\n", getpid(), seconds, from, printable(text.substr(0, kLongestText)),
                  cut ? fmt::format("... ({} more bytes)", cut) : "");
  (void)!write(output(), line.data(), line.size());
}

}  // namespace

std::string_view name_of(LogTopic topic) { return kTopics[static_cast<size_t>(topic)]; }
std::string_view name_of(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

LogLevels parse_log_levels(std::string_view text, std::string* problem) {
  LogLevels levels{};
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    const std::string_view level_name = equals == std::string_view::npos ? word : word.substr(equals + 1);
    const auto level = named<LogLevel>(kLevels, level_name);
    if (!level) {
      *problem = fmt::format("`{}` is no level; the levels are {}", level_name, listed(kLevels));
    } else if (equals == std::string_view::npos) {
      levels.fill(*level);
    } else if (auto topic = named<LogTopic>(kTopics, word.substr(0, equals))) {
      levels[static_cast<size_t>(*topic)] = *level;
    } else {
      *problem = fmt::format("`{}` is no topic; the topics are {}", word.substr(0, equals), listed(kTopics));
    }
  }
  return levels;
}

const LogLevels& log_levels() {
  static const LogLevels levels = [] {
    const char* text = std::getenv("FRIDAY_LOG");
    std::string problem;
    LogLevels parsed = parse_log_levels(text ? text : "", &problem);
    if (!problem.empty()) write_line("log", "FRIDAY_LOG: " + problem);
    return parsed;
  }();
  return levels;
}

void log_line(LogTopic topic, LogLevel level, std::string_view text) {
  write_line(fmt::format("{}/{}", name_of(topic), name_of(level)), text);
}

}  // namespace friday
