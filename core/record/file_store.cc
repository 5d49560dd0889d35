#include "core/record/file_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/fd.h"
#include "core/base/sparse.h"
#include "core/trace/file_hash.h"

namespace friday {

std::string hex_of(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

namespace {

// No file system in use has coarser times than the two seconds of FAT; Linux's own have those of its timer interrupt.
constexpr int64_t kCoarsestNs = 2'000'000'000;

int64_t ns_of(const timespec& time) { return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec; }

bool is_settled(const struct stat& st) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return std::max(ns_of(st.st_mtim), ns_of(st.st_ctim)) + kCoarsestNs < ns_of(now);
}

std::string path_of(int fd) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), error);
  return error ? "a mapped file" : path.string();
}

}  // namespace

Result<const StoredFile*> FileStore::add(int fd, bool want_sites, bool mapped_writable) {
  struct stat st;
  if (fstat(fd, &st) != 0) return fail_errno(errno, "cannot stat a mapped file");
  if (!S_ISREG(st.st_mode)) return fail(ErrorCode::unsupported, "the mapped file is not a regular file");
  const bool settled = !mapped_writable && is_settled(st);
  if (!settled) passing_ = StoredFile{};
  StoredFile& file = settled
                         ? known_[{st.st_dev, st.st_ino, static_cast<uint64_t>(st.st_size),
                                   static_cast<uint64_t>(ns_of(st.st_mtim)), static_cast<uint64_t>(ns_of(st.st_ctim))}]
                         : passing_;
  file.settled = settled;
  const bool fresh = file.size == 0;
  if (!fresh && (file.analysed || !want_sites)) return &file;
  if (st.st_size == 0) return &file;
  void* mapped = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map a file to copy it");
  std::string_view content(static_cast<const char*>(mapped), static_cast<size_t>(st.st_size));
  file.problem.clear();
  try {
    if (fresh) {
      XXH128_canonical_t canonical{};
      Progress progress(tell_);
      progress.begin(fmt::format("{} {}", copies_ ? "copying into the recording" : "reading", path_of(fd)),
                     (copies_ ? 2 : 1) * content.size());  // it is read once for its hash and once for the copy
      auto hash = hash_of_contents(fd, content.size(), &progress);
      if (hash) XXH128_canonicalFromHash(&canonical, *hash);
      if (auto copied = !hash     ? Result<void>(std::unexpected(hash.error()))
                        : copies_ ? copy(fd, content.size(), hex_of(canonical.digest, 16), progress)
                                  : Result<void>()) {
        memcpy(file.hash.data(), canonical.digest, 16);
        file.size = content.size();
      } else {  // not cached, so that the next request tries again
        file.problem = copied.error().message;
      }
    }
    analyse(fd, ns_of(st.st_ctim), content, want_sites, file);
  } catch (const std::bad_alloc&) {  // a memory limit of this process, from which the recorded program must not suffer
    file.problem = "no memory is left to copy it and to read its code";
  }
  munmap(mapped, content.size());
  return &file;
}

// `changed_ns`: the status change time of the file before its contents were hashed. What was decoded is kept only if
// this is still its time; a settled file that has changed has another one.
void FileStore::analyse(int fd, int64_t changed_ns, std::string_view content, bool want_sites, StoredFile& file) const {
  const bool hashed = file.size == content.size();
  if (want_sites && hashed) {
    if (auto known = cache_.find(file.hash, file.size)) {
      file.analysis = std::move(*known);
      file.analysed = true;
      return;
    }
  }
  Progress progress(tell_);
  progress.begin(fmt::format("looking for system calls in {}, once for this file", path_of(fd)), content.size());
  file.analysis = analyse_code(content, want_sites, &progress);
  file.analysed = want_sites;
  struct stat after;
  const bool same = fstat(fd, &after) == 0 && ns_of(after.st_ctim) == changed_ns;
  if (want_sites && hashed && file.settled && same) cache_.keep(file.hash, file.size, file.analysis);
}

Result<void> FileStore::copy(int fd, uint64_t size, const std::string& name, Progress& progress) {
  const Beneath file = directory_.below(name);
  auto there = open_beneath(file);
  struct stat st;
  if (there && fstat(there->get(), &st) == 0 && static_cast<uint64_t>(st.st_size) == size) return {};
  if (!there && there.error().code != ErrorCode::not_found) return std::unexpected(there.error());
  return replace_beneath(file, [&](int out) { return copy_contents(fd, out, size, &progress); });
}

}  // namespace friday
