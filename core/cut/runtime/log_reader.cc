#include "core/cut/runtime/log_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace friday::cut {

void give_up(int code, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  if (length >= static_cast<int>(sizeof text) - 1) length = sizeof text - 2;
  text[length++] = '\n';
  if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) {}
  _exit(code);
}

void LogReader::map(File& file, const char* path) {
  snprintf(file.name, sizeof file.name, "%s", path);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) give_up(2, "friday: cannot open the log %s: %s", path, strerror(errno));
  struct stat status;
  if (fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) < kLogHeadBytes + kLogBlockBytes)
    give_up(2, "friday: %s is no log of a cut, or was cut off: it has %lld bytes", path,
            static_cast<long long>(status.st_size));
  const auto bytes = static_cast<uint64_t>(status.st_size);
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) give_up(2, "friday: cannot map the log %s: %s", path, strerror(errno));
  file.head = static_cast<const LogHead*>(memory);
  if (memcmp(file.head->magic, kLogMagic, sizeof kLogMagic) != 0 || file.head->version != kLogVersion)
    give_up(2, "friday: %s is no log of a cut of this version", path);
  file.blocks = file.head->blocks;
  if (file.blocks == 0 || file.blocks > (bytes - kLogHeadBytes) / kLogBlockBytes)
    give_up(2, "friday: the log %s was cut off: it should have %llu blocks, and has room for %llu", path,
            static_cast<unsigned long long>(file.blocks),
            static_cast<unsigned long long>((bytes - kLogHeadBytes) / kLogBlockBytes));
}

void LogReader::check_blocks(const File& file) const {
  const char* const base = reinterpret_cast<const char*>(file.head) + kLogHeadBytes;
  for (uint64_t i = 0; i < file.blocks; i++) {
    const auto& block = *reinterpret_cast<const LogBlock*>(base + i * kLogBlockBytes);
    const bool may_be_open = i + 1 == file.blocks && file.head->state == LogState::open;
    const bool is_fine = block.magic == kLogBlockMagic && block.number == i && block.used <= kLogBlockPayload &&
                         (block.sealed == 1 ? block.checksum == hash_bytes(&block + 1, block.used) : may_be_open);
    if (!is_fine)
      give_up(2, "friday: the log %s is damaged in block %llu: it is not what was written. Take the original file",
              file.name, static_cast<unsigned long long>(i));
  }
}

void LogReader::open(const char* path, const char* fingerprint) {
  File chain[kMostFiles];
  unsigned count = 0;
  char next[1024];
  snprintf(next, sizeof next, "%s", path);
  uint64_t blocks = 0;
  uint32_t used = 0;
  for (;; count++) {
    if (count == kMostFiles) give_up(2, "friday: the log %s continues more than %u others", path, kMostFiles);
    File& file = chain[count];
    map(file, next);
    if (memcmp(file.head->fingerprint, fingerprint, 32) != 0)
      give_up(2, "friday: the log %s is of another build or plan (%.32s) than this program (%.32s)", next,
              file.head->fingerprint, fingerprint);
    check_blocks(file);
    const auto* last = [&](uint64_t number) {
      return reinterpret_cast<const LogBlock*>(reinterpret_cast<const char*>(file.head) + kLogHeadBytes +
                                               number * kLogBlockBytes);
    }(blocks ? blocks - 1 : file.blocks - 1);
    if (blocks > file.blocks || (blocks && used > last->used))
      give_up(2, "friday: the log %s ends before the place where %s continues it", next, chain[count - 1].name);
    if (blocks) file.blocks = blocks;
    file.last_used = blocks ? used : last->used;
    if (file.head->parent[0] == '\0') break;
    if (strnlen(file.head->parent, sizeof file.head->parent) == sizeof file.head->parent)
      give_up(2, "friday: the head of the log %s is damaged", next);
    blocks = file.head->parent_block + 1;
    used = file.head->parent_used;
    const char* const slash = strrchr(path, '/');
    snprintf(next, sizeof next, "%.*s%s", slash ? static_cast<int>(slash - path + 1) : 0, path, file.head->parent);
  }
  count_ = count + 1;
  for (unsigned i = 0; i < count_; i++) files_[i] = chain[count - i];
  rewind();
}

void LogReader::rewind() {
  file_ = 0;
  enter_block(0);
}

void LogReader::enter_block(uint64_t number) {
  const File& file = files_[file_];
  number_ = number;
  block_ = reinterpret_cast<const LogBlock*>(reinterpret_cast<const char*>(file.head) + kLogHeadBytes +
                                             number * kLogBlockBytes);
  at_ = reinterpret_cast<const char*>(block_ + 1);
  end_ = at_ + (number + 1 == file.blocks ? file.last_used : block_->used);
  stamp_ = block_->first_stamp;
}

bool LogReader::more() {
  while (at_ == end_) {
    if (number_ + 1 < files_[file_].blocks) enter_block(number_ + 1);
    else if (file_ + 1 < count_) file_++, enter_block(0);
    else return false;
  }
  return true;
}

const char* LogReader::take(uint64_t count) {
  if (count > static_cast<uint64_t>(end_ - at_)) damaged("a record is not whole");
  const char* const found = at_;
  at_ += count;
  return found;
}

uint64_t LogReader::take_varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = take_byte();
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  damaged("a number is too long");
}

uint64_t LogReader::take_time() {
  stamp_ += take_varint() << kStampShift;
  const LogHead& head = *files_[file_].head;
  const uint64_t stamps = head.last_stamp - head.first_stamp;
  const uint64_t passed = stamp_ - head.first_stamp;
  if (stamps == 0) return head.first_monotonic;
  return head.first_monotonic +
         static_cast<uint64_t>(static_cast<long double>(passed) *
                               static_cast<long double>(head.last_monotonic - head.first_monotonic) /
                               static_cast<long double>(stamps));
}

LogPlace LogReader::place() const {
  return {file_, number_, static_cast<uint64_t>(at_ - reinterpret_cast<const char*>(block_ + 1))};
}

void LogReader::damaged(const char* why) const {
  give_up(2, "friday: the log %s is damaged in block %llu near byte %llu: %s", files_[file_].name,
          static_cast<unsigned long long>(number_), static_cast<unsigned long long>(place().byte), why);
}

}  // namespace friday::cut
