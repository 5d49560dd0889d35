#include "core/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/fd.h"

namespace friday {

Result<std::string> read_file(const std::string& path) {
  FRIDAY_TRY(fd, open_file(path, O_RDONLY));
  return read_to_end(fd.get(), path);
}

Result<std::string> read_to_end(int fd, const std::string& what) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, fmt::format("cannot read {}", what));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

Result<void> write_file_atomically(const std::string& path, std::string_view text) {
  std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  FRIDAY_TRY(fd, open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  auto written = write_all(fd.get(), std::as_bytes(std::span(text.data(), text.size())));
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    int saved = errno;
    ::unlink(temporary.c_str());
    if (!written) return written;
    return fail_errno(saved, fmt::format("cannot rename {} to {}", temporary, path));
  }
  return {};
}

}  // namespace friday
