// A directory in /tmp for what a process needs only while it runs.
#pragma once

#include <string>
#include <utility>

#include "core/base/fd.h"

namespace friday {

class ScratchDirectory {
 public:
  // Makes /tmp/friday-session-XXXXXX (mode 0700). Those of this user whose processes ended without removing theirs, by
  // SIGKILL or because the terminal was closed, are removed first: nobody holds the lock (flock(2)) of their file
  // `in-use`.
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

  // Empty: none was made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd in_use_;
};

}  // namespace friday
