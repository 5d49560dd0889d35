#include "core/base/fd.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace friday {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

bool raise_descriptor_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

Result<UniqueFd> open_file(const std::string& path, int flags, mode_t mode) {
  int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return fail_errno(errno, fmt::format("cannot open {}", path));
  return UniqueFd(fd);
}

Result<void> read_exactly(int fd, std::span<std::byte> data, uint64_t offset) {
  while (!data.empty()) {
    ssize_t got = ::pread(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read failed");
    if (got == 0) return fail(ErrorCode::bad_input, "file ends {} bytes early", data.size());
    data = data.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<void> write_all(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(errno, "write failed");
    data = data.subspan(static_cast<size_t>(put));
  }
  return {};
}

}  // namespace friday
