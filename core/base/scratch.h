// A directory in /tmp for files that a process needs only while it runs.
#pragma once

#include <string>
#include <utility>

#include "core/base/fd.h"

namespace friday {

class ScratchDirectory {
 public:
  // Creates /tmp/friday-session-XXXXXX (mode 0700). First removes such directories of the same user that killed
  // processes left behind: those whose file `in-use` nobody holds locked (flock(2)).
  static Result<ScratchDirectory> make();

  ScratchDirectory() = default;
  ScratchDirectory(ScratchDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), in_use_(std::move(other.in_use_)) {}
  ScratchDirectory& operator=(ScratchDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(in_use_, other.in_use_);
    return *this;
  }
  ~ScratchDirectory();

  // Empty if no directory was made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd in_use_;
};

}  // namespace friday
