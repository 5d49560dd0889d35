#include "core/base/scratch.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

namespace friday {
namespace {

TEST(ScratchDirectory, IsPrivateAndEndsWithItsOwner) {
  std::string path;
  {
    auto made = ScratchDirectory::make();
    ASSERT_TRUE(made) << made.error().message;
    ScratchDirectory kept;
    kept = std::move(*made);
    path = kept.path();
    struct stat about;
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0700u);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ScratchDirectory, OneThatAKilledProcessLeftIsRemovedAndNoOther) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    auto made = ScratchDirectory::make();
    const std::string path = made ? made->path() : "";
    if (write(told[1], path.data(), path.size()) < 0) _exit(1);
    close(told[1]);
    for (;;) pause();
  }
  close(told[1]);
  char name[200] = "";
  ASSERT_GT(read(told[0], name, sizeof name - 1), 0);
  close(told[0]);
  char another[] = "/tmp/friday-session-XXXXXX";  // of the same name, but made by no process of Friday's
  ASSERT_NE(mkdtemp(another), nullptr);

  auto beside = ScratchDirectory::make();
  ASSERT_TRUE(beside);
  EXPECT_TRUE(std::filesystem::exists(name));

  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(name));
  auto behind = ScratchDirectory::make();
  ASSERT_TRUE(behind);
  EXPECT_FALSE(std::filesystem::exists(name));
  EXPECT_TRUE(std::filesystem::exists(beside->path()));
  EXPECT_TRUE(std::filesystem::exists(another));
  rmdir(another);
}

}  // namespace
}  // namespace friday
