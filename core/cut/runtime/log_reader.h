// Reads the log of a process (log.h), with the logs that it continues. Needs the C library's system calls only, since
// it runs in a replayed program before anything else does. Belongs to whoever has the turn.
#pragma once

#include "core/cut/runtime/log.h"

namespace friday::cut {

// A place in a log, for messages and for the group's time.
struct LogPlace {
  uint32_t file = 0;  // 0: the first process
  uint64_t block = 0;
  uint64_t byte = 0;  // of the records of the block
};

class LogReader {
 public:
  // Maps the file and those that it continues, and checks heads and checksums. Ends the process with 2 and a message if
  // one is damaged, cut off, or of another build.
  void open(const char* path, const char* fingerprint);

  // Whether there is another record; goes on to the next block, the next file.
  bool more();
  uint8_t peek() const { return static_cast<uint8_t>(*at_); }
  uint8_t take_byte() { return static_cast<uint8_t>(*take(1)); }
  const char* take(uint64_t count);  // ends the process if the record is not whole
  uint64_t take_varint();
  template <typename T>
  T take_value() {
    T value;
    __builtin_memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  // Nanoseconds of CLOCK_MONOTONIC when it was recorded.
  uint64_t take_time();

  void rewind();
  LogPlace place() const;
  bool checked() const { return files_[file_].head->checked != 0; }
  LogState state() const { return files_[count_ - 1].head->state; }
  [[noreturn]] void damaged(const char* why) const;

 private:
  static constexpr unsigned kMostFiles = 64;
  struct File {
    const LogHead* head;
    uint64_t blocks;
    uint32_t last_used;  // of the last block
    char name[512];
  };
  void map(File& file, const char* path);
  void check_blocks(const File& file) const;
  void enter_block(uint64_t number);

  File files_[kMostFiles];
  unsigned count_ = 0, file_ = 0;
  uint64_t number_ = 0, stamp_ = 0;
  const LogBlock* block_ = nullptr;
  const char *at_ = nullptr, *end_ = nullptr;
};

// Writes to standard error and ends the process.
[[noreturn]] void give_up(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace friday::cut
