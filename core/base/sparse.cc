#include "core/base/sparse.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/base/fd.h"

namespace friday {

Extent next_data(int fd, uint64_t at, uint64_t size) {
  if (at >= size) return {size, size};
  const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? Extent{size, size} : Extent{at, size};
  const off_t hole = ::lseek(fd, data, SEEK_HOLE);
  return {std::min(static_cast<uint64_t>(data), size), hole < 0 ? size : std::min(static_cast<uint64_t>(hole), size)};
}

namespace {

// Copies within the kernel, also between file systems, and falls back to read and write if the kernel cannot.
Result<void> copy_extent(int from, int to, Extent part, std::vector<std::byte>& buffer, Progress& progress) {
  constexpr uint64_t kStep = 64u << 20;  // step size for progress reports
  while (part.from < part.to) {
    off_t in = static_cast<off_t>(part.from), out = in;
    const ssize_t moved = ::copy_file_range(from, &in, to, &out, std::min(kStep, part.to - part.from), 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM)
      return fail_errno(errno, "copying failed");
    if (moved <= 0) break;
    part.from += static_cast<uint64_t>(moved);
    progress.add(static_cast<uint64_t>(moved));
  }
  buffer.resize(1u << 20);
  while (part.from < part.to) {
    auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), part.to - part.from));
    FRIDAY_TRY_VOID(read_exactly(from, piece, part.from));
    if (::lseek(to, static_cast<off_t>(part.from), SEEK_SET) < 0) return fail_errno(errno, "seeking failed");
    FRIDAY_TRY_VOID(write_all(to, piece));
    part.from += piece.size();
    progress.add(piece.size());
  }
  return {};
}

}  // namespace

Result<void> copy_contents(int from, int to, uint64_t size, Progress* progress) {
  Progress untold({});
  Progress& told = progress ? *progress : untold;
  if (::ioctl(to, FICLONE, from) != 0) {
    std::vector<std::byte> buffer;
    uint64_t done = 0;
    for (Extent part = next_data(from, 0, size); part.from < part.to; part = next_data(from, part.to, size)) {
      told.add(part.from - done);  // a hole counts as copied
      FRIDAY_TRY_VOID(copy_extent(from, to, part, buffer, told));
      done = part.to;
    }
  }
  if (::ftruncate(to, static_cast<off_t>(size)) != 0) return fail_errno(errno, "the copy cannot have its size");
  return {};
}

}  // namespace friday
