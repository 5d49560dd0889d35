#include "core/trace/draft.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/base/fd.h"
#include "core/base/sparse.h"

namespace friday {

namespace fs = std::filesystem;

Result<Draft> Draft::beside(const std::string& place) {
  std::string name = place + ".partial-XXXXXX";
  if (!::mkdtemp(name.data())) return fail_errno(errno, fmt::format("cannot make a directory beside {}", place));
  return Draft(name);
}

Draft::~Draft() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<void> Draft::move_to(const std::string& place) {
  FRIDAY_TRY(directory, open_file(path_, O_RDONLY | O_DIRECTORY));
  if (::syncfs(directory.get()) != 0) return fail_errno(errno, fmt::format("cannot write {} to the disk", path_));
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, place.c_str(), RENAME_NOREPLACE) != 0) {
    // Some file systems do not support RENAME_NOREPLACE. A plain rename(2) replaces nothing but an empty directory.
    if (errno != EINVAL || ::rename(path_.c_str(), place.c_str()) != 0)
      return fail_errno(errno, fmt::format("cannot rename {} to {}", path_, place));
  }
  path_.clear();
  std::string parent = fs::path(place).parent_path().string();
  if (auto above = open_file(parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY)) ::fsync(above->get());
  return {};
}

Result<struct stat> copy_to_draft(const Beneath& from, const std::string& to, const char* doing, Progress& progress) {
  FRIDAY_TRY(source, open_beneath(from));
  FRIDAY_TRY(target, open_file(to, O_WRONLY | O_CREAT | O_EXCL, 0600));
  struct stat about;
  if (::fstat(source.get(), &about) != 0) return fail_errno(errno, fmt::format("cannot examine {}", from.path()));
  const auto size = static_cast<uint64_t>(about.st_size);
  progress.begin(fmt::format("{} {}", doing, from.path()), size);
  if (auto copied = copy_contents(source.get(), target.get(), size, &progress); !copied)
    return fail(copied.error().code, "cannot copy {} to {}: {}", from.path(), to, copied.error().message);
  return about;
}

}  // namespace friday
