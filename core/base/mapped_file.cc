#include "core/base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace friday {

Result<MappedFile> MappedFile::open(const Beneath& file) {
  FRIDAY_TRY(fd, open_beneath(file));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, fmt::format("cannot examine {}", file.path()));
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return MappedFile({});
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd.get(), 0);
  if (start == MAP_FAILED) return fail_errno(errno, fmt::format("cannot map {}, of {} bytes", file.path(), size));
  return MappedFile({static_cast<const char*>(start), size});
}

MappedFile::~MappedFile() {
  if (!text_.empty()) ::munmap(const_cast<char*>(text_.data()), text_.size());
}

}  // namespace friday
