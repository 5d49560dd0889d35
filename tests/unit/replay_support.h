// What the programs that replay a recording for tests/e2e/test_checkpoints.py share. They print what is wrong and exit
// with 1.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "core/replay/session.h"

namespace friday {

[[noreturn]] inline void give_up(const std::string& why) {
  fmt::print("{}\n", why);
  std::exit(1);
}

template <typename T>
T value(Result<T> result, const char* what) {
  if (!result) give_up(fmt::format("{}: {}", what, result.error().message));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline std::unique_ptr<ReplaySession> open_session(const std::string& recording) {
  const auto here = std::filesystem::canonical("/proc/self/exe").parent_path();
  ReplayOptions options;
  options.library_directory = (here.parent_path() / "lib").string();
  return value(ReplaySession::open(recording, options), "open");
}

}  // namespace friday
