#include "core/base/scratch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace friday {

namespace {

namespace fs = std::filesystem;

constexpr char kPlace[] = "/tmp";
constexpr char kPrefix[] = "friday-session-";
constexpr char kInUse[] = "in-use";

// Removes the directory if no process uses it. It is not ours if it lacks the file `in-use` or belongs to another user.
void remove_if_left_over(const fs::path& path) {
  UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about;
  if (!directory || fstat(directory.get(), &about) != 0 || about.st_uid != geteuid()) return;
  UniqueFd in_use(openat(directory.get(), kInUse, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::error_code ignored;
  if (in_use && flock(in_use.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
}

void remove_left_over() {
  std::error_code ignored;
  for (fs::directory_iterator entry(kPlace, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (entry->path().filename().string().starts_with(kPrefix)) remove_if_left_over(entry->path());
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::make() {
  remove_left_over();
  for (;;) {
    std::string name = fmt::format("{}/{}XXXXXX", kPlace, kPrefix);
    if (!mkdtemp(name.data())) return fail_errno(errno, fmt::format("cannot make a directory in {}", kPlace));
    ScratchDirectory made;
    made.path_ = name;
    FRIDAY_TRY(in_use, open_file(fmt::format("{}/{}", name, kInUse), O_RDWR | O_CREAT | O_EXCL));
    if (flock(in_use.get(), LOCK_EX) != 0) return fail_errno(errno, fmt::format("cannot lock {}/{}", name, kInUse));
    // Before it was locked, another process may have considered the directory abandoned and removed it.
    struct stat about;
    if (fstat(in_use.get(), &about) != 0 || about.st_nlink == 0) continue;
    made.in_use_ = std::move(in_use);
    return made;
  }
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace friday
