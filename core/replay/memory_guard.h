// Watches all replayed processes together, for two conditions. Their memory: a recording is not trusted, and a process
// that uses up all memory takes it from the user's other programs. A standstill: nothing outside wakes a replayed
// process, so if all of them sleep while their tracer waits for them, they will sleep for ever. A thread checks a few
// times a second and notifies the owner once.
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
  // `tell` is called on the guard's thread, at most once for each of the two conditions.
  explicit MemoryGuard(std::function<void()> tell);
  ~MemoryGuard();

  // May be called from any thread.
  void watch(pid_t process);
  void forget_all();
  bool exceeded() const { return exceeded_; }
  std::string describe() const;  // a sentence for users, once the limit is exceeded
  // Call when the owner starts to wait for the processes, and again when it stops waiting.
  void waits() { waits_++; }
  bool stand_still() const { return still_; }

 private:
  void look();
  void look_for_standstill(const std::set<pid_t>& processes);
  uint64_t held_by_all(const std::set<pid_t>& processes) const;

  std::function<void()> tell_;
  const uint64_t limit_;  // in bytes
  const uint64_t shared_before_;
  std::atomic<bool> exceeded_ = false, still_ = false;
  std::atomic<uint64_t> waits_ = 0;  // odd while the owner waits
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::set<pid_t> processes_;
  // Declared last, because it uses the other members. Not joinable if the system refuses to create a thread; then
  // nothing is watched.
  std::thread thread_;
};

}  // namespace friday
