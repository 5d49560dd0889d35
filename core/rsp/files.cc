#include "core/rsp/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/rsp/text.h"

namespace friday {
namespace {

constexpr size_t kMostFiles = 64;

// gdb's File-I/O protocol has errno values of its own. Those that can occur here equal Linux's, with these exceptions.
std::string failure(int error) {
  constexpr int kUnknown = 9999, kNameTooLong = 91;
  if (error == ENAMETOOLONG) error = kNameTooLong;
  else if (error > EROFS) error = kUnknown;
  return fmt::format("F-1,{:x}", error);
}

void append_big_endian(std::string& out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

// Opens `path` with `root` as "/", including for symbolic links and "..". A root other than "/" is a sysroot, whose
// links to the recording's files lead out of it and are followed.
UniqueFd open_below(const std::string& root, std::string path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if (root != "/")
    return UniqueFd(::open((root + std::filesystem::path("/" + path).lexically_normal().string()).c_str(), kFlags));
  UniqueFd directory(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return {};
  path.erase(0, path.find_first_not_of('/'));
  open_how how{.flags = kFlags, .mode = 0, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, directory.get(), path.c_str(), &how, sizeof how)));
}

// True for "/proc/1/maps" and "/proc/1/task/N/maps", since gdb knows the node as process 1.
bool is_maps(const std::string& path) {
  return path == "/proc/1/maps" || (path.starts_with("/proc/1/task/") && path.ends_with("/maps"));
}

std::string maps_text(const std::vector<Mapping>& maps) {
  std::string text;
  for (const Mapping& map : maps) {
    auto bit = [&](uint32_t which, char letter) { return map.protection & which ? letter : '-'; };
    text += fmt::format("{:x}-{:x} {}{}{}{} 00000000 00:00 0 {:>20}{}\n", map.low, map.high, bit(PROT_READ, 'r'),
                        bit(PROT_WRITE, 'w'), bit(PROT_EXEC, 'x'), map.shared ? 's' : 'p', "", map.path);
  }
  return text;
}

}  // namespace

std::string RspFiles::handle(std::string_view request, size_t reply_limit) {
  TextCursor cursor(request);
  if (cursor.take("setfs:")) return "F0";
  if (cursor.take("open:")) return open(cursor.rest());
  if (cursor.take("pread:")) return read(cursor.rest(), reply_limit);
  if (cursor.take("fstat:")) return status(cursor.rest());
  if (cursor.take("close:")) return close(cursor.rest());
  return "";
}

const RspFiles::File* RspFiles::find(uint64_t number) const {
  auto found = files_.find(number);
  return found == files_.end() ? nullptr : &found->second;
}

std::expected<RspFiles::File, int> RspFiles::open_path(const std::string& path) {
  if (is_maps(path)) {
    auto maps = node_.mappings();
    if (!maps) return std::unexpected(ENOENT);
    return File{.fd = {}, .text = maps_text(*maps)};
  }
  UniqueFd file = open_below(sysroot_, path);
  if (!file) return std::unexpected(errno);
  struct stat info;
  struct statfs system;
  if (fstat(file.get(), &info) || !S_ISREG(info.st_mode)) return std::unexpected(EACCES);
  if (fstatfs(file.get(), &system) || system.f_type == PROC_SUPER_MAGIC) return std::unexpected(ENOENT);
  return File{.fd = std::move(file), .text = {}};
}

std::string RspFiles::open(std::string_view arguments) {
  TextCursor cursor(arguments);
  auto name = from_hex(cursor.until(','));
  auto flags = cursor.hex();
  if (!name || !flags) return failure(EINVAL);
  if (*flags != O_RDONLY) return failure(EROFS);
  if (files_.size() >= kMostFiles) return failure(EMFILE);
  auto file = open_path(std::string(reinterpret_cast<const char*>(name->data()), name->size()));
  if (!file) return failure(file.error());
  uint64_t number = 1;
  while (files_.contains(number)) ++number;
  files_[number] = std::move(*file);
  return fmt::format("F{:x}", number);
}

std::string RspFiles::read(std::string_view arguments, size_t reply_limit) {
  TextCursor cursor(arguments);
  auto number = cursor.hex();
  bool comma = cursor.take(",");
  auto count = cursor.hex();
  comma &= cursor.take(",");
  auto offset = cursor.hex();
  if (!number || !count || !offset || !comma) return failure(EINVAL);
  const File* file = find(*number);
  if (!file) return failure(EBADF);
  std::string data;
  if (file->fd) {
    data.resize(std::min<uint64_t>(*count, reply_limit));
    ssize_t got = pread(file->fd.get(), data.data(), data.size(), static_cast<off_t>(*offset));
    if (got < 0) return failure(errno);
    data.resize(static_cast<size_t>(got));
  } else if (*offset < file->text.size()) {
    data = file->text.substr(*offset, std::min<uint64_t>(*count, reply_limit));
  }
  return fmt::format("F{:x};", data.size()) + data;
}

std::string RspFiles::status(std::string_view arguments) {
  auto number = TextCursor(arguments).hex();
  const File* file = number ? find(*number) : nullptr;
  struct stat info {};
  if (!file || (file->fd && fstat(file->fd.get(), &info))) return failure(EBADF);
  if (!file->fd) {
    info.st_mode = S_IFREG | 0400;
    info.st_size = static_cast<off_t>(file->text.size());
  }
  std::string data;  // struct stat in the layout of the File-I/O protocol
  for (uint64_t field : {uint64_t{info.st_dev}, uint64_t{info.st_ino}, uint64_t{info.st_mode}, uint64_t{info.st_nlink},
                         uint64_t{info.st_uid}, uint64_t{info.st_gid}, uint64_t{0}})
    append_big_endian(data, field, 4);
  for (auto field : {info.st_size, info.st_blksize, info.st_blocks})
    append_big_endian(data, static_cast<uint64_t>(field), 8);
  for (auto field : {info.st_atime, info.st_mtime, info.st_ctime})
    append_big_endian(data, static_cast<uint64_t>(field), 4);
  return fmt::format("F{:x};", data.size()) + data;
}

std::string RspFiles::close(std::string_view arguments) {
  auto number = TextCursor(arguments).hex();
  return number && files_.erase(*number) ? "F0" : failure(EBADF);
}

}  // namespace friday
