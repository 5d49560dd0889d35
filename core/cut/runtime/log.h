// The log of a cut: what crossed from the outside of a program to its inside while it was recorded (Wu et al., FSE
// 2010, section 4). The runtime that is linked into the program (recorder.cc) writes it and reads it again at replay
// (replayer.cc); the console reads heads and kinds from it. This header needs neither a library nor LLVM.
//
// Each process has one file. It is little-endian and mapped while it grows, so a process that is killed leaves all that
// it has logged. A page with a LogHead comes first, then blocks of kLogBlockBytes, each with a LogBlock and after it
// records, which never cross the end of a block. A block that is full is sealed with a checksum; the last block of a
// process that was killed is not sealed, and then only its number of used bytes says where it ends. A process that was
// forked continues the log of its parent: it has only what came after the fork, and names the parent's file and place.
//
// A record begins with one byte. Its low 3 bits are a ReadCode; if they are `other`, the high 5 bits are a RecordKind.
// The high 5 bits of a read are the low bits of its site's number. "varint": 7 bits a byte, the lowest first, the
// highest bit says that more follow. Sites and entries are numbered as they stand in the program's own tables
// (runtime.h), so a log fits one build only, whose fingerprint it has.
//
// Records of different threads stand in the order in which the threads held the lock of the inside: one thread at a
// time runs there. `thread` says whose the next records are; stores belong to nobody.
#pragma once

#include <cstdint>

namespace friday::cut {

inline constexpr char kLogMagic[8] = {'F', 'R', 'I', 'D', 'C', 'U', 'T', 'L'};
inline constexpr uint32_t kLogVersion = 1;
inline constexpr uint32_t kLogBlockMagic = 0x31424346;  // "FCB1"
inline constexpr uint64_t kLogHeadBytes = 4096;
inline constexpr uint64_t kLogBlockBytes = 65536;
inline constexpr uint32_t kMostRecordBytes = 32768;  // longer data is split into several records

enum class LogState : uint32_t {
  open,     // the process runs, or was killed
  closed,   // it ended
  stopped,  // the recording was given up; the last record says why
};

struct LogHead {
  char magic[8];
  uint32_t version;
  uint32_t checked;  // 1: each return to the outside has a hash of the inside's variables
  char fingerprint[32];
  uint64_t pid;
  // The processor's time stamp counter, and the clocks at that moment in nanoseconds. Both at the start and now and
  // then, so that stamps can be converted.
  uint64_t first_stamp, first_monotonic, first_realtime;
  uint64_t last_stamp, last_monotonic;
  uint64_t blocks;  // that were begun
  LogState state;
  uint32_t threads;                // how many threads were inside
  uint64_t parent_block;           // of a forked process: the place in the parent's log
  uint32_t parent_used, reserved;  // bytes used of that block
  char parent[512];                // file name of the parent's log in the same directory; empty: none
};

struct LogBlock {
  uint32_t magic;
  uint32_t number;  // from 0
  uint32_t used;    // bytes behind this head that are records
  uint32_t sealed;  // 1: the checksum holds
  uint64_t checksum;
  uint64_t first_stamp;  // from which the times of records in this block count
};
inline constexpr uint64_t kLogBlockPayload = kLogBlockBytes - sizeof(LogBlock);

enum class ReadCode : uint8_t {
  other,
  one,  // a value of 1, 2, 4 or 8 bytes that was read outside
  two,
  four,
  eight,
  many,  // varint length, then so many bytes
};

enum class RecordKind : uint8_t {
  thread = 1,   // varint number
  new_thread,   // varint number, 8 bytes lowest and 8 bytes highest address of its stack; it is the current one now
  entry,        // varint entry, varint time, varint distance of the stack pointer from its highest address, arguments
  entry_end,    // 4 bytes hash of the result; varint time; if checked, 8 bytes hash of the inside's variables
  call,         // varint site, varint time, 4 bytes hash of the arguments: inside calls outside
  call_end,     // varint site, varint time, the result
  store,        // 8 bytes address, varint length, so many bytes: outside wrote them inside
  fill,         // 8 bytes address, varint length, 1 byte that fills them
  allocated,    // 8 bytes address, varint length: memory that is inside from now on
  reallocated,  // 8 bytes old address, 8 bytes new, varint bytes that are kept, varint length
  made,         // the result of an allocator that inside called: as allocated
  end,          // the process ended
  stopped,      // varint length, a text: why the recording was given up
  quiet,        // 4 bytes count, 4 bytes hash: so many calls to the outside, one after the other, without a result,
                // in which nothing else was recorded. While it is the last record, it grows
  returned,     // varint site, varint time, 4 bytes hash of the arguments, the result: a call in which nothing else was
};

inline constexpr uint8_t kind_byte(RecordKind kind) { return static_cast<uint8_t>(static_cast<uint8_t>(kind) << 3); }
inline constexpr uint8_t read_byte(ReadCode code, uint32_t site) {
  return static_cast<uint8_t>(static_cast<uint8_t>(code) | (site & 31) << 3);
}

// Times count units of 16 stamps since the last record with a time in this block, or since its start.
inline constexpr unsigned kStampShift = 4;

// A hash of bytes, 8 at a time; for checks, not against malice.
inline uint64_t hash_bytes(const void* bytes, uint64_t count, uint64_t hash = 0x9e3779b97f4a7c15) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  for (; count >= 8; at += 8, count -= 8) {
    uint64_t word;
    __builtin_memcpy(&word, at, 8);
    mix(word);
  }
  uint64_t rest = count << 56;
  for (uint64_t i = 0; i < count; i++) rest |= uint64_t{at[i]} << (8 * i);
  mix(rest);
  return hash;
}

// Of quiet calls, one after the other.
inline uint32_t hash_of_quiet(uint32_t hash, uint32_t site, uint32_t arguments) {
  const uint64_t all[2] = {uint64_t{hash} << 32 | site, arguments};
  return static_cast<uint32_t>(hash_bytes(all, sizeof all));
}

}  // namespace friday::cut
