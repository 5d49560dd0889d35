// Two hundred threads at once, and what C++ has for them: atomic waits, latches, barriers, semaphores, stop tokens,
// thread-local objects with destructors.
#include <pthread.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kCrowd = 200, kFew = 8;
std::atomic<int> destroyed, passed, phase;

struct Local {
  int value = 0;
  ~Local() { destroyed += value; }
};
thread_local Local local;

pthread_key_t key;
int again = 0;
void destroy(void* value) {
  // Set once more by its own destructor: it is called again.
  if (reinterpret_cast<long>(value) > 1) {
    CHECK(pthread_setspecific(key, reinterpret_cast<void*>(1L)) == 0);
    return;
  }
  __atomic_fetch_add(&again, 1, __ATOMIC_SEQ_CST);
}

void crowd() {
  std::latch all(kCrowd + 1), go(1);
  std::mutex mutex;
  long sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kCrowd; i++)
    threads.emplace_back([&, i] {
      local.value = 1;
      CHECK(pthread_setspecific(key, reinterpret_cast<void*>(2L)) == 0);
      all.arrive_and_wait();
      go.wait();
      std::lock_guard lock(mutex);
      sum += i;
    });
  all.arrive_and_wait();
  go.count_down();
  for (auto& thread : threads) thread.join();
  CHECK(sum == kCrowd * (kCrowd - 1) / 2 && destroyed == kCrowd && again == kCrowd);
}

void atomic_waits() {
  std::vector<std::thread> threads;
  for (int i = 0; i < kFew; i++)
    threads.emplace_back([i] {
      for (int round = 1; round <= 20; round++) {
        for (int now = phase.load(); now < round; now = phase.load()) phase.wait(now);
        if (passed.fetch_add(1) + 1 == kFew * round) passed.notify_all();
      }
      (void)i;
    });
  for (int round = 1; round <= 20; round++) {
    phase = round;
    phase.notify_all();
    for (int now = passed.load(); now < kFew * round; now = passed.load()) passed.wait(now);
  }
  for (auto& thread : threads) thread.join();
  CHECK(passed == kFew * 20);
}

void barriers() {
  int turns = 0;
  std::barrier barrier(kFew, [&]() noexcept { turns++; });
  std::counting_semaphore<kFew> few(2);
  std::atomic<int> inside = 0, most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kFew; i++)
      threads.emplace_back([&] {
        for (int round = 0; round < 10; round++) {
          few.acquire();
          int now = ++inside;
          int before = most.load();
          while (before < now && !most.compare_exchange_weak(before, now)) {}
          --inside;
          few.release();
          barrier.arrive_and_wait();
        }
      });
  }
  CHECK(turns == 10 && most <= 2 && inside == 0);
}

void stops() {
  std::condition_variable_any changed;
  std::mutex mutex;
  bool stopped = false;
  {
    std::jthread waiting([&](std::stop_token token) {
      std::unique_lock lock(mutex);
      CHECK(!changed.wait(lock, token, [] { return false; }));
      stopped = true;
    });
  }
  CHECK(stopped);
}

}  // namespace

int main() {
  CHECK(pthread_key_create(&key, destroy) == 0);
  crowd();
  atomic_waits();
  barriers();
  stops();
  return success();
}
