// Makes a blocked waitpid(2) of the calling thread return with EINTR at a given time, and every 20 ms after it: by
// SIGURG, for which a handler that does nothing must be installed. The repetition is needed because a signal that
// arrives just before waitpid(2) has no effect. If the kernel gives no timer, nothing happens.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>

namespace friday {

class Alarm {
 public:
  // For the calling thread.
  Alarm() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    made_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  }
  ~Alarm() {
    if (made_) timer_delete(timer_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  void set(std::chrono::nanoseconds from_now) {
    constexpr int64_t kSecond = 1'000'000'000;
    const int64_t ns = std::max<int64_t>(1, from_now.count());
    arm({{0, 20'000'000}, {ns / kSecond, ns % kSecond}});
  }
  void clear() { arm({}); }

 private:
  void arm(const itimerspec& when) {
    if (made_) timer_settime(timer_, 0, &when, nullptr);
  }

  timer_t timer_{};
  bool made_ = false;
};

}  // namespace friday
