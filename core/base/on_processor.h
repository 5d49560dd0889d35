// Keeps the calling thread on one processor for a while. Its own choice of processors is put back at the end.
#pragma once

#include <sched.h>

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
    if (processor < 0 || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    const cpu_set_t one = only(processor);
    pinned_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnProcessor() {
    if (pinned_) (void)sched_setaffinity(0, sizeof before_, &before_);
  }
  OnProcessor(const OnProcessor&) = delete;
  OnProcessor& operator=(const OnProcessor&) = delete;

  // False where the processor may not be chosen.
  bool pinned() const { return pinned_; }

 private:
  cpu_set_t before_;
  bool pinned_ = false;
};

}  // namespace friday
