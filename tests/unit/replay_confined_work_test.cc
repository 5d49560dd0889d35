// What work in a confined process can do: read, compute, ask and answer. All else costs the answer only.
#include "core/replay/confined_work.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace friday {
namespace {

using namespace std::chrono_literals;

const auto kNoAnswer = [](std::string_view) { return std::string(); };

void expect_no_child() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ConfinedWorkTest, WorkReadsAsksAndAnswers) {
  const auto work = [](const Ask& ask) {
    std::ifstream file("/proc/self/stat");
    const std::string first{std::istreambuf_iterator<char>(file), {}};
    return fmt::format("{}-{}-{}", ask("one"), ask(""), first.empty());
  };
  const auto done = run_confined(
      work, [](std::string_view q) { return fmt::format("<{}>", q); }, 20s);
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ(*done, "<one>-<>-false");
  expect_no_child();
}

TEST(ConfinedWorkTest, LongTextsAreCutOff) {
  const auto work = [](const Ask& ask) { return ask("") + std::string(2 * kMostConfinedText, 'x'); };
  const auto done = run_confined(
      work, [](std::string_view) { return std::string(1 << 20, 'a'); }, 20s);
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ(done->size(), kMostConfinedText);
  EXPECT_EQ(done->find('x'), kMostConfinedAnswer);
}

TEST(ConfinedWorkTest, WorkThatCrashesOrDoesNotEndCostsTheAnswer) {
  const std::function<std::string(const Ask&)> bad[] = {
      [](const Ask&) -> std::string { raise(SIGSEGV), _exit(0); },
      [](const Ask&) -> std::string { abort(); },
      [](const Ask&) -> std::string { _exit(0); },
      [](const Ask&) -> std::string {
        for (;;) asm volatile("");
      },
      [](const Ask&) -> std::string { throw std::bad_alloc(); },
  };
  for (const auto& work : bad) {
    const auto done = run_confined(work, kNoAnswer, 300ms);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::component_died);
    expect_no_child();
  }
}

TEST(ConfinedWorkTest, NothingCanBeWrittenReachedOrStarted) {
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("friday-confined-{}", getpid());
  std::ofstream(path) << "kept";
  int inherited = open(path.c_str(), O_RDWR);
  ASSERT_GE(inherited, 0);
  const pid_t caller = getpid();
  const auto work = [&](const Ask&) {
    std::string could;
    const auto tried = [&](const char* what, bool done) { could += done ? std::string(what) + " " : ""; };
    for (int flags : {O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC, O_WRONLY | O_CREAT})
      tried("open", open(path.c_str(), flags, 0600) >= 0);
    tried("creat", creat((path + "-new").c_str(), 0600) >= 0);
    tried("write", write(inherited, "no", 2) > 0);
    tried("unlink", unlink(path.c_str()) == 0);
    tried("truncate", truncate(path.c_str(), 0) == 0);
    tried("socket", socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    tried("fork", fork() >= 0);
    tried("exec", execl("/bin/true", "true", nullptr) == 0);
    tried("kill", kill(caller, 0) == 0);
    tried("code", mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    char byte = 0;
    iovec own{&byte, 1}, other{&byte, 1};
    tried("memory", process_vm_readv(caller, &own, 1, &other, 1, 0) == 1);
    return could;
  };
  const auto done = run_confined(work, kNoAnswer, 20s);
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ(*done, "");
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "kept");
  EXPECT_FALSE(std::filesystem::exists(path + "-new"));
  close(inherited);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace friday
