// Ownership of file descriptors, and common loops around read(2) and write(2).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace friday {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Raises the soft limit RLIMIT_NOFILE to the hard limit. Returns false if it was there already.
bool raise_descriptor_limit();

// open(2) with O_CLOEXEC added; the error names the path.
Result<UniqueFd> open_file(const std::string& path, int flags, mode_t mode = 0600);

// Reads exactly `data.size()` bytes at `offset`, or fails (short file: bad_input).
Result<void> read_exactly(int fd, std::span<std::byte> data, uint64_t offset);

// Writes all of `data` at the file's position.
Result<void> write_all(int fd, std::span<const std::byte> data);

}  // namespace friday
