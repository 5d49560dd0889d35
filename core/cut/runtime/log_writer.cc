#include "core/cut/runtime/log_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/cut/runtime/runtime.h"

namespace friday::cut {
namespace {

constexpr uint64_t kMostLogBytes = uint64_t{1} << 36;  // of addresses that are kept free for the log
constexpr uint64_t kGrowBytes = 64 * kLogBlockBytes;   // at a time

uint64_t stamp() { return __builtin_ia32_rdtsc(); }
uint64_t nanoseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

bool LogWriter::open(const char* directory, bool checked) {
  checked_ = checked;
  if (!realpath(directory, directory_)) {
    fprintf(stderr, "friday: nothing is recorded: the directory %s (FRIDAY_CUT_LOG) is not there: %s\n", directory,
            strerror(errno));
    return false;
  }
  return make_file("", 0, 0);
}

bool LogWriter::open_child() {
  char parent[sizeof name_];
  memcpy(parent, name_, sizeof parent);
  const uint64_t block = block_->number;
  const uint32_t used = block_->used;
  munmap(head_, kMostLogBytes);
  head_ = nullptr;
  ::close(fd_);
  return make_file(parent, block, used);
}

bool LogWriter::make_file(const char* parent, uint64_t parent_block, uint32_t parent_used) {
  char path[4096];
  for (unsigned number = 0;; number++) {
    snprintf(name_, sizeof name_, "%d-%u.cutlog", static_cast<int>(getpid()), number);
    snprintf(path, sizeof path, "%s/%s", directory_, name_);
    fd_ = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd_ >= 0 || errno != EEXIST) break;
  }
  void* const memory =
      fd_ < 0 ? MAP_FAILED
              : mmap(nullptr, kMostLogBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || ftruncate(fd_, kLogHeadBytes + kGrowBytes) != 0 ||
      mmap(memory, kLogHeadBytes + kGrowBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) == MAP_FAILED) {
    fprintf(stderr, "friday: process %d is not recorded: no log %s: %s\n", static_cast<int>(getpid()), path,
            strerror(errno));
    return false;
  }
  mapped_ = kLogHeadBytes + kGrowBytes;
  head_ = static_cast<LogHead*>(memory);
  memcpy(head_->fingerprint, program_fingerprint(), sizeof head_->fingerprint);
  head_->version = kLogVersion;
  head_->checked = checked_;
  head_->pid = static_cast<uint64_t>(getpid());
  head_->first_stamp = head_->last_stamp = stamp();
  head_->first_monotonic = head_->last_monotonic = nanoseconds(CLOCK_MONOTONIC);
  head_->first_realtime = nanoseconds(CLOCK_REALTIME);
  head_->parent_block = parent_block;
  head_->parent_used = parent_used;
  snprintf(head_->parent, sizeof head_->parent, "%s", parent);
  block_ = nullptr;
  if (!next_block()) return false;
  memcpy(head_->magic, kLogMagic, sizeof kLogMagic);
  return true;
}

void LogWriter::seal() {
  block_->checksum = hash_bytes(block_ + 1, block_->used);
  __atomic_store_n(&block_->sealed, 1, __ATOMIC_RELEASE);
  head_->last_stamp = stamp();
  head_->last_monotonic = nanoseconds(CLOCK_MONOTONIC);
}

bool LogWriter::next_block() {
  const int before = errno;
  if (block_) seal();
  const uint64_t number = head_->blocks;
  const uint64_t start = kLogHeadBytes + number * kLogBlockBytes;
  if (start + kLogBlockBytes > mapped_) {
    char* const base = reinterpret_cast<char*>(head_);
    if (mapped_ + kGrowBytes > kMostLogBytes || ftruncate(fd_, static_cast<off_t>(mapped_ + kGrowBytes)) != 0 ||
        mmap(base + mapped_, kGrowBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
             static_cast<off_t>(mapped_)) == MAP_FAILED) {
      fprintf(stderr, "friday: the recording of process %d ends here: its log cannot grow: %s\n",
              static_cast<int>(getpid()), strerror(errno));
      head_ = nullptr;
      errno = before;
      return false;
    }
    mapped_ += kGrowBytes;
  }
  block_ = reinterpret_cast<LogBlock*>(reinterpret_cast<char*>(head_) + start);
  block_->magic = kLogBlockMagic;
  block_->number = static_cast<uint32_t>(number);
  block_->first_stamp = last_stamp_ = stamp();
  __atomic_store_n(&head_->blocks, number + 1, __ATOMIC_RELEASE);
  errno = before;
  return true;
}

char* LogWriter::put_time(char* at) {
  const uint64_t now = stamp();
  const uint64_t passed = now > last_stamp_ ? (now - last_stamp_) >> kStampShift : 0;
  last_stamp_ += passed << kStampShift;
  return put_varint(at, passed);
}

bool LogWriter::make_quiet(Mark before, Mark after, uint32_t site, uint32_t hash) {
  if (!head_ || !(mark() == after) || !has_room(before, 16)) return false;
  struct Quiet {
    uint32_t count, hash;
  } quiet{1, hash_of_quiet(0, site, hash)};
  char* at = reinterpret_cast<char*>(block_ + 1) + before.used;
  if (before == quiet_end_) {
    memcpy(&quiet, at - sizeof quiet, sizeof quiet);
    quiet = {quiet.count + 1, hash_of_quiet(quiet.hash, site, hash)};
    memcpy(at - sizeof quiet, &quiet, sizeof quiet);
    take_back(before);
    return true;
  }
  last_stamp_ = before.stamp;
  at = put(at, kind_byte(RecordKind::quiet));
  memcpy(at, &quiet, sizeof quiet);
  commit(at + sizeof quiet);
  quiet_end_ = mark();
  return true;
}

void LogWriter::close() {
  if (!head_) return;
  if (char* at = begin(1)) commit(put(at, kind_byte(RecordKind::end)));
  if (!head_) return;
  seal();
  head_->state = LogState::closed;
  // What is not used of the file's end goes.
  if (ftruncate(fd_, static_cast<off_t>(kLogHeadBytes + head_->blocks * kLogBlockBytes)) != 0) {}
  head_ = nullptr;
}

void LogWriter::stop(const char* format, ...) {
  if (!head_) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "friday: the recording of process %d ends here: %s\n", static_cast<int>(getpid()), text);
  const auto length = static_cast<uint32_t>(strlen(text));
  if (char* at = begin(length + 8)) {
    at = put_varint(put(at, kind_byte(RecordKind::stopped)), length);
    memcpy(at, text, length);
    commit(at + length);
    seal();
    head_->state = LogState::stopped;
  }
  head_ = nullptr;
}

}  // namespace friday::cut
