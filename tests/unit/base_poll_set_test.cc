#include "core/base/poll_set.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <vector>

#include <gtest/gtest.h>

#include "core/base/fd.h"

namespace friday {
namespace {

TEST(PollSetTest, acts_for_ready_descriptors_only_and_in_their_order) {
  UniqueFd first(eventfd(1, EFD_CLOEXEC)), quiet(eventfd(0, EFD_CLOEXEC)), last(eventfd(1, EFD_CLOEXEC));
  std::vector<int> acted;
  PollSet set;
  set.add(last.get(), [&] { acted.push_back(3); });
  const size_t silent = set.add(quiet.get(), [&] { acted.push_back(2); });
  const size_t ready = set.add(first.get(), [&] { acted.push_back(1); });
  const size_t plain = set.add(first.get());  // nothing to do but to be looked at
  ASSERT_TRUE(set.wait(-1));
  EXPECT_TRUE(acted.empty()) << "wait() itself takes no action";
  EXPECT_TRUE(set.is_ready(ready));
  EXPECT_TRUE(set.is_ready(plain));
  EXPECT_FALSE(set.is_ready(silent));
  set.act();
  EXPECT_EQ(acted, (std::vector<int>{3, 1}));
}

TEST(PollSetTest, after_the_time_nothing_is_ready) {
  UniqueFd one(eventfd(1, EFD_CLOEXEC));
  PollSet set;
  bool acted = false;
  const size_t place = set.add(one.get(), [&] { acted = true; });
  ASSERT_TRUE(set.wait(-1));
  EXPECT_TRUE(set.is_ready(place));
  uint64_t count;
  ASSERT_EQ(read(one.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  ASSERT_TRUE(set.wait(1));
  set.act();
  EXPECT_FALSE(set.is_ready(place));
  EXPECT_FALSE(acted);
}

TEST(PollSetTest, waits_for_room_to_write_if_asked) {
  UniqueFd one(eventfd(0, EFD_CLOEXEC));
  PollSet set;
  const size_t read = set.add(one.get()), write = set.add(one.get(), {}, POLLOUT);
  ASSERT_TRUE(set.wait(-1));
  EXPECT_FALSE(set.is_ready(read));
  EXPECT_TRUE(set.is_ready(write));
}

void interrupt(int) {}

TEST(PollSetTest, a_signal_ends_the_wait_and_nothing_is_ready) {
  UniqueFd one(eventfd(1, EFD_CLOEXEC));
  PollSet set;
  const size_t place = set.add(one.get());
  ASSERT_TRUE(set.wait(-1));
  ASSERT_TRUE(set.is_ready(place));
  uint64_t count;
  ASSERT_EQ(read(one.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  struct sigaction action {
  }, before{};
  action.sa_handler = interrupt;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval again{{0, 1000}, {0, 1000}}, never{};  // repeated, so that one that comes too early does no harm
  setitimer(ITIMER_REAL, &again, nullptr);
  const Result<void> waited = set.wait(-1);
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_TRUE(waited);
  EXPECT_FALSE(set.is_ready(place));
}

}  // namespace
}  // namespace friday
