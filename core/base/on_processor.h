// Keeps the thread that makes it on one processor for a while. Its own choice of processors is put back at the end,
// whichever thread ends it.
#pragma once

#include <sched.h>
#include <unistd.h>

namespace friday {

// The set of one processor.
inline cpu_set_t only(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(processor), &one);
  return one;
}

class OnProcessor {
 public:
  // Negative: nothing is changed.
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

  // False where the processor may not be chosen.
  bool pinned() const { return pinned_; }
  pid_t thread() const { return thread_; }

 private:
  const pid_t thread_ = gettid();
  cpu_set_t before_;
  bool pinned_ = false;
};

}  // namespace friday
