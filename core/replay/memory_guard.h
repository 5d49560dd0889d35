// Looks after all replayed processes together. Their memory: a recording is a stranger's, and one process that takes
// all there is takes it from the user's own. And that one of them runs: nothing outside wakes a replayed process, so
// where all sleep and their tracer waits for them, all do so for ever. A thread of its own looks a few times a second
// and tells the owner once.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace friday {

class MemoryGuard {
 public:
  // `tell` is called on the guard's thread, once for each of the two.
  explicit MemoryGuard(std::function<void()> tell);
  ~MemoryGuard();

  // Any thread.
  void watch(pid_t process);
  void forget_all();
  bool exceeded() const { return exceeded_; }
  std::string describe() const;  // a sentence, once exceeded
  // The owner begins to wait for the processes, or is back from it.
  void waits() { waits_++; }
  bool stand_still() const { return still_; }

 private:
  void look();
  void look_for_standstill(const std::set<pid_t>& processes);
  uint64_t held_by_all(const std::set<pid_t>& processes) const;

  std::function<void()> tell_;
  const uint64_t limit_;  // bytes
  const uint64_t shared_before_;
  std::atomic<bool> exceeded_ = false, still_ = false;
  std::atomic<uint64_t> waits_ = 0;  // odd: the owner waits
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::set<pid_t> processes_;
  std::thread thread_;  // the last: what it uses is there before it. Not joinable where the system gives none: then
                        // nobody looks
};

}  // namespace friday
