// Reads the text of a group file, for the tests of what it becomes and of what is refused.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "core/base/files.h"
#include "core/record/group.h"

namespace friday {

inline Result<GroupSpec> parse(const std::string& text) {
  const std::string path = testing::TempDir() + "/friday-group-" + std::to_string(getpid()) + ".toml";
  EXPECT_TRUE(write_file_atomically(path, text));
  auto group = read_group(path);
  unlink(path.c_str());
  return group;
}

// The message without the directory.
inline std::string refusal(const std::string& text) {
  auto group = parse(text);
  if (group) return "accepted";
  EXPECT_EQ(group.error().code, ErrorCode::bad_input);
  return group.error().message.substr(group.error().message.find(".toml") + 5);
}

}  // namespace friday
