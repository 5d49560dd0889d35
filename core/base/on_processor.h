// Binds the calling thread to one processor for the lifetime of the object. The destructor, which may run on another
// thread, restores the previous affinity of the bound thread.
#pragma once

#include <sched.h>
#include <unistd.h>

namespace friday {

// A set that contains one processor.
inline cpu_set_t only(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(processor), &one);
  return one;
}

class OnProcessor {
 public:
  // A negative number leaves the affinity unchanged.
  explicit OnProcessor(int processor) {
    if (processor < 0 || sched_getaffinity(thread_, sizeof before_, &before_) != 0) return;
    const cpu_set_t one = only(processor);
    pinned_ = sched_setaffinity(thread_, sizeof one, &one) == 0;
  }
  ~OnProcessor() {
    if (pinned_) (void)sched_setaffinity(thread_, sizeof before_, &before_);
  }
  OnProcessor(const OnProcessor&) = delete;
  OnProcessor& operator=(const OnProcessor&) = delete;

  // False if the affinity could not be set.
  bool pinned() const { return pinned_; }
  pid_t thread() const { return thread_; }

 private:
  const pid_t thread_ = gettid();
  cpu_set_t before_;
  bool pinned_ = false;
};

}  // namespace friday
