// Processes that keep a token while others wait for it: who is named, when, and what is said to do.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "core/record/proc_files.h"
#include "core/record/standstill.h"

namespace friday {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr unsigned kLong = Standstill::kSeconds * Standstill::kLooksPerSecond;

class StandstillTest : public testing::Test {
 protected:
  StandstillTest() {
    area_ = static_cast<shim::TokenArea*>(
        mmap(nullptr, sizeof *area_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    struct stat space;
    EXPECT_EQ(stat("/proc/self/ns/pid", &space), 0);
    space_ = space.st_ino;
    area_->groups = 1;
    group().turn = 7;
  }
  ~StandstillTest() override {
    for (pid_t pid : children_) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
    munmap(area_, sizeof *area_);
  }

  shim::TokenGroup& group() { return area_->group[1]; }

  // A process that waits for its end, or is stopped.
  pid_t child(bool stopped) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (stopped) raise(SIGSTOP);
      for (;;) pause();
    }
    children_.push_back(pid);
    while (thread_state(pid, pid) != (stopped ? 'T' : 'S')) usleep(1000);
    return pid;
  }
  uint32_t member(pid_t pid) {
    const uint32_t number = ++area_->members;
    area_->member[number].pid = area_->member[number].tid = static_cast<uint32_t>(pid);
    area_->member[number].pid_namespace = space_;
    return number;
  }
  void holds(uint32_t number) { group().state = shim::kTokenHeld | number; }
  void waits(uint32_t number) {
    area_->member[number].next = group().first;
    group().first = number;
    group().waiting++;
  }
  // What so many looks find.
  std::vector<KeptToken> look(unsigned times) {
    std::vector<KeptToken> found;
    for (unsigned i = 0; i < times; i++)
      for (auto& kept : standstill_.look(*area_)) found.push_back(std::move(kept));
    return found;
  }

  shim::TokenArea* area_;
  uint64_t space_;
  std::vector<pid_t> children_;
  Standstill standstill_;
};

// A thread that keeps others waiting because its process waits for another process is not to blame.
TEST_F(StandstillTest, DoesNotBlameAProcessThatWaitsForItsGroup) {
  const pid_t holder = child(false), waiting = child(false);
  area_->kept[0].pid = area_->kept[0].tid = static_cast<uint32_t>(waiting);
  area_->kept[0].pid_namespace = space_;
  area_->kept[0].looks = Standstill::kSeconds * 1000;
  holds(member(holder));
  waits(member(waiting));
  const auto found = look(kLong + 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].holder, holder);
  group().first = group().waiting = 0;
  const auto later = look(1);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].holder, waiting);
}

TEST_F(StandstillTest, NamesAStoppedHolderOnce) {
  const pid_t stopped = child(true), waiting = child(false);
  holds(member(stopped));
  waits(member(waiting));
  EXPECT_THAT(look(kLong), IsEmpty());
  const auto found = look(1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].holder, stopped);
  EXPECT_THAT(found[0].text, AllOf(HasSubstr("process " + std::to_string(stopped) + " ("),
                                   HasSubstr("thread " + std::to_string(stopped)),
                                   HasSubstr("has kept process " + std::to_string(waiting) + " ("),
                                   HasSubstr("kill -CONT " + std::to_string(stopped))));
  EXPECT_THAT(look(2 * kLong), IsEmpty());
}

TEST_F(StandstillTest, NamesAHolderThatSleepsInTheKernel) {
  holds(member(child(false)));
  waits(member(child(false)));
  waits(member(child(false)));
  const auto found = look(kLong + 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].text, AllOf(HasSubstr("sleeps in the kernel"), HasSubstr("and 1 more waiting")));
}

TEST_F(StandstillTest, NamesAThreadThatOthersOfItsProcessWaitFor) {
  const pid_t process = child(false);
  area_->kept[3] = {static_cast<uint32_t>(process), static_cast<uint32_t>(process), space_,
                    1000 * Standstill::kSeconds - 1, 0};
  EXPECT_THAT(look(1), IsEmpty());
  area_->kept[3].looks++;
  const auto found = look(2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].holder, process);
  EXPECT_THAT(found[0].text, AllOf(HasSubstr("thread " + std::to_string(process) + ", has kept other threads waiting"),
                                   HasSubstr("sleeps in the kernel")));
}

TEST_F(StandstillTest, NamesAChildByVforkThatHasItsParentsTurn) {
  const pid_t process = child(false), by_vfork = child(true);
  area_->kept[0] = {static_cast<uint32_t>(process), static_cast<uint32_t>(by_vfork), space_,
                    1000 * Standstill::kSeconds, 0};
  const auto found = look(1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].holder, process);
  EXPECT_THAT(found[0].text, AllOf(HasSubstr("process " + std::to_string(by_vfork) + " ("),
                                   HasSubstr("a child by vfork of process " + std::to_string(process)),
                                   HasSubstr("kill -CONT " + std::to_string(by_vfork))));
}

TEST_F(StandstillTest, SaysNothingWhereTurnsChange) {
  holds(member(child(false)));
  waits(member(child(false)));
  for (unsigned i = 0; i < 3 * kLong; i++) {
    if (i % kLong == 0) group().turn++;
    EXPECT_THAT(look(1), IsEmpty());
  }
}

TEST_F(StandstillTest, SaysNothingOfATokenThatIsLentOrThatNobodyWaitsFor) {
  const uint32_t holder = member(child(true));
  holds(holder);
  EXPECT_THAT(look(2 * kLong), IsEmpty());
  waits(member(child(false)));
  group().state = shim::kTokenLent | holder;
  EXPECT_THAT(look(2 * kLong), IsEmpty());
}

TEST_F(StandstillTest, SaysNothingWhereAllAreStopped) {
  holds(member(child(true)));
  waits(member(child(true)));
  EXPECT_THAT(look(2 * kLong), IsEmpty());
}

}  // namespace
}  // namespace friday
