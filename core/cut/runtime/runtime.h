// What the parts of the cut's runtime share. The runtime is one object that is linked into a recorded program; the
// functions that the compiler's pass calls (core/cut/bitcode/recording.h) begin with friday_cut_. It runs in threads of
// the program, so it keeps errno, and it never throws. Nothing here is used by Friday itself.
//
// Plain running (no environment variable): friday_cut_mode is 0, and nothing else is touched. Recording: recorder.cc.
// Replay: replayer.cc, which takes over before any constructor and never returns to the C library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cut/runtime/log.h"

namespace friday::cut {

enum Mode : uint8_t { kPlain = 0, kRecording = 1, kReplaying = 2 };

// A place in the source that has records. The pass makes them, all in one section, so that a number is an index.
struct Site {
  const char* function;
  const char* file;
  const char* what;  // what is called or read, for people
  uint32_t line;
  uint32_t bytes;  // of the result of a call; of a value that is read
};
static_assert(sizeof(Site) == 32);

// A function that is inside and may be entered from outside.
struct Entry {
  const char* function;
  const char* file;
  void (*invoke)(const void* arguments, void* result);  // reads the arguments and calls the function
  uint32_t line;
  uint32_t argument_bytes;
  uint32_t result_bytes;
  uint32_t reserved[3];
};
static_assert(sizeof(Entry) == 48);

inline constexpr unsigned kMostThreads = 4096;
inline constexpr unsigned kMostResult = 16384;  // bytes of the arguments or the result of a crossing

[[noreturn]] void replay(const char* path);
void start_recording(const char* directory, bool checked);

uint64_t hash_of_variables();
uint32_t number_of(const Site* site);
uint32_t number_of(const Entry* entry);
const Site* site_of(uint64_t number);    // null if there is none
const Entry* entry_of(uint64_t number);  // null if there is none
const char* program_fingerprint();       // 32 characters

// Of the replayer, for the functions that the pass calls in both modes.
uint64_t replay_read(const Site* site, ReadCode code);
void replay_read_bytes(const Site* site, void* to, uint64_t count);
void replay_result(const Site* site, void* result, uint32_t bytes);
void* replay_made(const Site* site);
bool replay_is_over();  // the log has no more records
bool is_present(uint64_t address, uint64_t count);

}  // namespace friday::cut

// In stacks.cc.
extern "C" {
// Calls function(arguments, result) with the stack pointer `stack` (a multiple of 16), and keeps its own in *own.
// Debuggers end a list of frames here, since what called it is not part of the replay.
void friday_cut_outside_is_not_replayed(void (*function)(const void*, void*), const void* arguments, void* result,
                                        uint64_t stack, uint64_t* own);
// Calls function(argument) on the stack *own.
void friday_cut_on_own_stack(void (*function)(void*), void* argument, uint64_t stack);
// Before a call from inside to outside: whether it is made, always in recording and never at replay. At replay it keeps
// nothing on the stack of the inside, since the frames of the outside were where its own would be, and may have memory
// that is inside.
uint32_t friday_cut_leave(const friday::cut::Site* site, const void* arguments, uint32_t bytes);
uint32_t friday_cut_leave_recorded(const friday::cut::Site* site, const void* arguments, uint32_t bytes);
void friday_cut_leave_replayed(const friday::cut::Site* site, const void* arguments, uint32_t bytes);
uint64_t friday_cut_own_stack();
extern uint8_t friday_cut_mode;
}
