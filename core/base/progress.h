// How far long work has come, for whoever waits for it: nothing is told of work that is done soon. Belongs to one
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace friday {

class Progress {
 public:
  // Of `total` bytes of `what`, "copying PATH", so many are done.
  using Tell = std::function<void(const std::string& what, uint64_t done, uint64_t total)>;
  static constexpr std::chrono::milliseconds kQuiet{2000};  // before it is first told, and between

  // `tell` may be empty: then nobody is told.
  explicit Progress(Tell tell, std::chrono::milliseconds quiet = kQuiet) : tell_(std::move(tell)), quiet_(quiet) {}

  // The next part of the work; of many short ones some are told of.
  void begin(std::string what, uint64_t total) {
    what_ = std::move(what);
    done_ = 0;
    total_ = total;
  }
  void add(uint64_t bytes) {
    done_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (!tell_ || now - told_ < quiet_) return;
    told_ = now;
    tell_(what_, done_, total_);
  }

 private:
  Tell tell_;
  std::chrono::milliseconds quiet_;
  std::string what_;
  uint64_t done_ = 0, total_ = 0;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace friday
