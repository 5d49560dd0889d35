#include "core/base/beneath.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace friday {

namespace {

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a directory";
    case S_IFLNK: return "a symbolic link";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    default: return "a device";
  }
}

std::unexpected<Error> refused(const std::string& path, mode_t found, const char* wanted) {
  return fail(ErrorCode::bad_input,
              "{} is {} where {} should be; it was not opened. Friday makes no such recordings: copy this one again, "
              "or do not trust it",
              path, kind_of(found), wanted);
}

std::unexpected<Error> cannot_open(const std::string& path) {
  const int problem = errno;
  auto failure = fail_errno(problem, fmt::format("cannot open {}", path));
  if (problem == ENOENT) failure.error().code = ErrorCode::not_found;
  return failure;
}

// The file that a path leads to without following links below `root`: a descriptor opened with O_PATH, and the file's
// kind.
struct Found {
  UniqueFd fd;
  mode_t mode = 0;
};

Result<Found> find(const Beneath& file, bool make) {
  Found found{UniqueFd(::open(file.root.empty() ? "." : file.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), S_IFDIR};
  if (!found.fd) return cannot_open(file.root);
  for (size_t from = 0; from < file.name.size();) {
    const size_t end = std::min(file.name.find('/', from), file.name.size());
    const std::string part = file.name.substr(from, end - from),
                      so_far = Beneath(file.root, file.name.substr(0, end)).path();
    from = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..")
      return fail(ErrorCode::bad_input, "{} leads out of {}; it was not opened", file.path(), file.root);
    if (!S_ISDIR(found.mode)) return refused(so_far.substr(0, so_far.rfind('/')), found.mode, "a directory");
    if (make && ::mkdirat(found.fd.get(), part.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("cannot make {}", so_far));
    UniqueFd next(::openat(found.fd.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status;
    if (!next || ::fstat(next.get(), &status) != 0) return cannot_open(so_far);
    if (S_ISLNK(status.st_mode))
      return refused(so_far, status.st_mode, from > file.name.size() ? "a file or a directory" : "a directory");
    found = {std::move(next), status.st_mode};
  }
  return found;
}

// Opens that same file for reading or writing; it cannot have been exchanged since it was found.
Result<UniqueFd> reopen(const Found& found, int flags, const std::string& path) {
  UniqueFd fd(::open(fmt::format("/proc/self/fd/{}", found.fd.get()).c_str(), flags | O_CLOEXEC));
  if (!fd) return cannot_open(path);
  return fd;
}

Result<UniqueFd> open_directory(const Beneath& directory, bool make) {
  FRIDAY_TRY(found, find(directory, make));
  if (!S_ISDIR(found.mode)) return refused(directory.path(), found.mode, "a directory");
  return reopen(found, O_RDONLY | O_DIRECTORY, directory.path());
}

Result<void> check_entries(UniqueFd directory, const std::string& path) {
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(directory.get()), ::closedir);
  if (!entries) return fail_errno(errno, fmt::format("cannot list {}", path));
  const int here = directory.release();
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status;
    if (::fstatat(here, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;  // removed in the meantime
    const std::string whole = path + "/" + name;
    if (S_ISDIR(status.st_mode)) {
      UniqueFd below(::openat(here, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!below) return cannot_open(whole);
      FRIDAY_TRY_VOID(check_entries(std::move(below), whole));
    } else if (!S_ISREG(status.st_mode)) {
      return refused(whole, status.st_mode, "a regular file");
    }
  }
  return {};
}

}  // namespace

Beneath::Beneath(const std::string& path) {
  const size_t slash = path.rfind('/');
  root = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  name = slash == std::string::npos ? path : path.substr(slash + 1);
}

Beneath Beneath::directory() const {
  const size_t slash = name.rfind('/');
  return {root, slash == std::string::npos ? "" : name.substr(0, slash)};
}

Beneath Beneath::beside(std::string_view file) const { return directory().below(file); }

Result<UniqueFd> open_beneath(const Beneath& file, int access) {
  FRIDAY_TRY(found, find(file, false));
  if (!S_ISREG(found.mode)) return refused(file.path(), found.mode, "a regular file");
  return reopen(found, access, file.path());
}

Result<UniqueFd> open_directory_beneath(const Beneath& directory) { return open_directory(directory, false); }
Result<UniqueFd> make_directory_beneath(const Beneath& directory) { return open_directory(directory, true); }

Result<std::vector<std::string>> names_beneath(const Beneath& directory) {
  FRIDAY_TRY(fd, open_directory_beneath(directory));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd.get()), ::closedir);
  if (!entries) return fail_errno(errno, fmt::format("cannot list {}", directory.path()));
  fd.release();  // closedir(3) closes it
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get()))
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

namespace {

std::string last_part(const Beneath& file) { return file.name.substr(file.name.rfind('/') + 1); }

// Renames a file within its directory, replacing the file that has the new name.
Result<void> rename_beneath(const Beneath& from, const std::string& to) {
  FRIDAY_TRY(directory, open_directory_beneath(from.directory()));
  if (::renameat(directory.get(), last_part(from).c_str(), directory.get(), to.c_str()) == 0) return {};
  return fail_errno(errno, fmt::format("cannot rename {} to {}", from.path(), to));
}

}  // namespace

Result<bool> make_new_directory_beneath(const Beneath& directory) {
  FRIDAY_TRY(parent, open_directory_beneath(directory.directory()));
  if (::mkdirat(parent.get(), last_part(directory).c_str(), 0700) == 0) return true;
  if (errno == EEXIST) return false;
  return fail_errno(errno, fmt::format("cannot create {}", directory.path()));
}

Result<UniqueFd> create_beneath(const Beneath& file) {
  FRIDAY_TRY(directory, open_directory_beneath(file.directory()));
  UniqueFd fd(
      ::openat(directory.get(), last_part(file).c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, fmt::format("cannot make {}", file.path()));
  return fd;
}

Result<UniqueFd> create_unnamed_beneath(const Beneath& directory) {
  FRIDAY_TRY(opened, open_directory_beneath(directory));
  UniqueFd fd(::openat(opened.get(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, fmt::format("cannot make a file without a name in {}", directory.path()));
  return fd;
}

Result<void> name_beneath(int fd, const Beneath& file) {
  FRIDAY_TRY(directory, open_directory_beneath(file.directory()));
  const std::string self = fmt::format("/proc/self/fd/{}", fd);  // as open(2) describes for O_TMPFILE
  if (::linkat(AT_FDCWD, self.c_str(), directory.get(), last_part(file).c_str(), AT_SYMLINK_FOLLOW) != 0)
    return fail_errno(errno, fmt::format("cannot make {}", file.path()));
  return {};
}

void remove_beneath(const Beneath& file) {
  const auto directory = open_directory_beneath(file.directory());
  if (directory && ::unlinkat(directory->get(), last_part(file).c_str(), 0) != 0 && errno == EISDIR)
    ::unlinkat(directory->get(), last_part(file).c_str(), AT_REMOVEDIR);
}

Result<std::string> read_beneath(const Beneath& file, uint64_t most) {
  FRIDAY_TRY(fd, open_beneath(file));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, fmt::format("cannot examine {}", file.path()));
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > most)
    return fail(
        ErrorCode::bad_input,
        "{} has {} bytes, where at most {} can be right; it was not read. Copy the recording again, or do not trust it",
        file.path(), size, most);
  std::string text(size, '\0');
  if (auto got = read_exactly(fd.get(), std::as_writable_bytes(std::span(text)), 0); !got)
    return fail(got.error().code, "cannot read {}: {}", file.path(), got.error().message);
  return text;
}

Result<void> replace_beneath(const Beneath& file, const std::function<Result<void>(int fd)>& fill) {
  const Beneath temporary = file.beside(fmt::format("{}.{}.tmp", last_part(file), ::getpid()));
  remove_beneath(temporary);  // a leftover, or a link that somebody put there
  FRIDAY_TRY(fd, create_beneath(temporary));
  auto written = fill(fd.get());
  if (written) written = rename_beneath(temporary, last_part(file));
  if (!written) remove_beneath(temporary);
  return written;
}

Result<void> write_beneath(const Beneath& file, std::string_view text) {
  if (auto made = make_directory_beneath(file.directory()); !made) return std::unexpected(made.error());
  return replace_beneath(file,
                         [&](int fd) { return write_all(fd, std::as_bytes(std::span(text.data(), text.size()))); });
}

Result<void> check_below(const Beneath& directory) {
  auto opened = open_directory_beneath(directory);
  if (!opened && opened.error().code == ErrorCode::not_found) return {};
  if (!opened) return std::unexpected(opened.error());
  return check_entries(std::move(*opened), directory.path());
}

}  // namespace friday
