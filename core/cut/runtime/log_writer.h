// Writes the log of this process (log.h). One thread at a time may call: whoever holds the lock of the inside. A record
// that does not fit in the block goes into the next one. When the log cannot grow, or the recording is given up, later
// records are dropped, and the program runs on.
#pragma once

#include "core/cut/runtime/log.h"

namespace friday::cut {

class LogWriter {
 public:
  // Creates DIRECTORY/PID-NUMBER.cutlog. False, with a message to standard error, if it cannot.
  bool open(const char* directory, bool checked);
  // In a process that was just forked: a new file, which names the old one. False as open().
  bool open_child();
  void close();                        // seals the last block
  void stop(const char* format, ...);  // gives up; says so once on standard error, too

  bool is_open() const { return head_ != nullptr; }
  bool checked() const { return checked_; }

  // Room for a record of at most `count` bytes; null if nothing is recorded any more.
  char* begin(uint32_t count) {
    if (!head_) return nullptr;
    if (block_->used + count > kLogBlockPayload) return next_block() ? at() : nullptr;
    return at();
  }
  // The record ends before `end`.
  void commit(const char* end) {
    const auto used = static_cast<uint32_t>(end - reinterpret_cast<const char*>(block_ + 1));
    __atomic_store_n(&block_->used, used, __ATOMIC_RELEASE);
  }
  static char* put_varint(char* at, uint64_t value) {
    for (; value >= 128; value >>= 7) *at++ = static_cast<char>(value | 128);
    *at++ = static_cast<char>(value);
    return at;
  }
  template <typename T>
  static char* put(char* at, T value) {
    __builtin_memcpy(at, &value, sizeof value);
    return at + sizeof value;
  }
  // The time since the record before, as a varint. Only after begin(), since a block counts from its start.
  char* put_time(char* at);
  void note_thread() { head_->threads++; }

  // Where the next record would stand. Nothing was recorded between two equal ones.
  struct Mark {
    const LogBlock* block;
    uint32_t used;
    uint64_t stamp;  // of the last record with a time
    bool operator==(const Mark& other) const { return block == other.block && used == other.used; }
  };
  Mark mark() const { return {block_, block_ ? block_->used : 0, last_stamp_}; }
  // The record between two marks, which is the last one, is forgotten; instead a quiet call is counted. False if there
  // is no room for that.
  bool make_quiet(Mark before, Mark after, uint32_t site, uint32_t hash);
  // The last record is forgotten. The next one may be written over it.
  void take_back(Mark before) {
    last_stamp_ = before.stamp;
    __atomic_store_n(&block_->used, before.used, __ATOMIC_RELEASE);
  }
  bool has_room(Mark before, uint32_t count) const { return before.used + count <= kLogBlockPayload; }

 private:
  char* at() const { return reinterpret_cast<char*>(block_ + 1) + block_->used; }
  bool make_file(const char* parent, uint64_t parent_block, uint32_t parent_used);
  bool next_block();
  void seal();

  LogHead* head_ = nullptr;
  LogBlock* block_ = nullptr;
  Mark quiet_end_{};     // behind the last record of quiet calls
  uint64_t mapped_ = 0;  // bytes of the file that are mapped
  uint64_t last_stamp_ = 0;
  int fd_ = -1;
  bool checked_ = false;
  char directory_[3072] = {};
  char name_[512] = {};
};

}  // namespace friday::cut
