// Reports the progress of long work; work that finishes soon is not reported. Belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace friday {

class Progress {
 public:
  // Called with a description such as "copying PATH", and how many of `total` bytes are done.
  using Tell = std::function<void(const std::string& what, uint64_t done, uint64_t total)>;
  static constexpr std::chrono::milliseconds kQuiet{2000};  // before the first report, and between reports

  // `tell` may be empty; then nothing is reported.
  explicit Progress(Tell tell, std::chrono::milliseconds quiet = kQuiet) : tell_(std::move(tell)), quiet_(quiet) {}

  // Starts the next part of the work. If the parts are short, only some of them are reported.
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
