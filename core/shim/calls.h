// The program's calls: the table of them (calls.def), and what is done with one while recording, at replay or after
// either has ended. What a call wrote, moved and read are files of their own, and so are the calls whose meaning no
// table can tell.
#pragma once

#include <linux/futex.h>

#include "core/shim/call_flags.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/memory.h"
#include "core/shim/trace.h"

namespace friday::shim {

// ---- calls (call_table.cc): calls.def as data
enum Rule : uint8_t { kUnknown, kEmulated, kNative, kSpecial, kRefuse };
enum class Shape : uint8_t {
  none,
  ret,
  ret_n,
  ret_cap,
  fix,
  count,
  length,
  iov,
  msg,
  mmsg,
  mmsg_len,
  fdset,
  buffer,
  string,
  argument,
  pages,
  caps,
  message_text,
  handle,
  aio_events,
  iocbs,
  nodes,
  own_iov,
  spliced,
  xattr,
  msg_room,
  mmsg_room,
  sized,
  mask,
  coded
};
struct Operand {
  Shape shape;
  uint8_t argument, other;
  uint16_t size;
};
struct CallInfo {
  const char* name;
  uint8_t arity;
  Rule rule;
  uint32_t flags;  // CallFlag
  Operand outputs[4], inputs[5];
};
// One more than the table has numbers for: the last entry stands for every number that it does not know.
inline constexpr unsigned kCallCount = [] {
  int last = -1;
#define CALL(number, ...) last = number > last ? number : last;
#include "core/shim/calls.def"
  return static_cast<unsigned>(last + 2);
}();
struct CallTable {
  CallInfo calls[kCallCount] = {};
};
extern const CallTable call_storage;
inline const CallInfo& call_info(uint64_t number) {
  return call_storage.calls[number < kCallCount ? number : kCallCount - 1];
}

inline constexpr uint64_t kFutexCommand =
    127;  // of a futex(2)'s operation, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
inline bool futex_waits(const uint64_t* arguments) {
  const uint64_t command = arguments[1] & kFutexCommand;
  return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
}

// ---- dispatch.cc
void pass_through(CallFrame* frame, ThreadArea* area);

// ---- record_call.cc: a call while recording
void record_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
bool is_clock(uint64_t call);
bool read_clock(const CallFrame* frame, long* result);
// After a call of the program's was interrupted: is it made again behind a handler with SA_RESTART?
bool restarts(const CallInfo& info, const CallFrame* frame, const ThreadArea* area);
void record_described(CallFrame* frame, ThreadArea* area,
                      const CallInfo& info);  // made, and recorded as the table says
void record_failed(CallFrame* frame, ThreadArea* area,
                   long error);  // a call that is not made: what a kernel without it would say

struct Recorded {  // what a native call made while recording came to
  long result;
  bool stolen;
  ChangedFile changed;
  uint64_t hash, entry, exit;
};
Recorded make_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
void end_at_call(CallFrame* frame, long result, const char* why);  // the recording; the call has been made
// Others have unmapped what a call wrote to, or cut off the file behind it, before it was this thread's turn again.
inline constexpr char kGone[] = "into memory that was gone before it was seen";

// ---- outputs.cc: what a call has written
void write_iov(EventWriter& writer, const IoVec* iov, uint64_t count, long result);
void write_outputs(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                   const uint32_t* before);
// Notes, before a call, what the program offers in value-result lengths.
void note_lengths(const CallInfo& info, const CallFrame* frame, uint32_t* before);
bool fills(int pipe);       // a vmsplice(2) at this end of a pipe reads from it
bool is_own(uint64_t pid);  // this process, or a thread of it

// ---- transfers.cc: what a call has done to channels
uint64_t hash_run(const char* data, uint64_t size, uint64_t seed);
uint64_t hash_gathered(const uint64_t* iov, uint64_t count, uint64_t limit, uint64_t seed);
void prepare_channels(const CallInfo& info, const CallFrame* frame, long result);
void note_transfer(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Recorded& done);
void note_copy(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result);
void note_descriptors(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result);

// ---- inputs.cc
uint64_t input_hash(const CallInfo& info, const CallFrame* frame);  // of what a call reads from memory; 0: nothing

// ---- codes.cc
// Outputs of a call decided by its code argument: one block of memory, and for ioctl(2) one that its argument leads to.
struct Block {
  uint64_t address = 0, size = 0;
  bool known = true;       // false: the recording ends, unless the call fails and so has written nothing
  bool by_result = false;  // no more than the result says
};
inline bool is_coded(const CallInfo& info) { return info.outputs[0].shape == Shape::coded; }
Block coded_output(const CallFrame* frame);  // before the call
// Behind one that has succeeded: completes `out`, and fills in `inner`. False: where it has written is not known.
bool coded_complete(const CallFrame* frame, const ThreadArea* area, long result, Block* out, Block* inner);
bool waits_by_code(const CallFrame* frame);  // one that is kQuick by the table may wait all the same
void note_fcntl(EventWriter& writer, const uint64_t* arguments, long result);
long refused_for_shim(
    const CallFrame* frame);  // the error that the program sees of a call that would harm the recording; 0: none

// ---- ioctls.cc
int ioctl_output_bytes(uint64_t code);                     // written at the argument; -1: not known
bool ioctl_inner_output(const uint64_t* a, Block* inner);  // once it has succeeded; false: not known
uint64_t ioctl_input_hash(const uint64_t* a);
uint32_t ioctl_command(const uint64_t* a);  // of a request that has many; 0: none

// ---- special.cc
// Handles a kSpecial call in both modes; frame->rax becomes the result. True: leave with every register restored.
bool special_call(CallFrame* frame, ThreadArea* area);
bool special_is_plain(const CallFrame* frame);        // at replay it is fed like a call of the table
bool local_call(CallFrame* frame, ThreadArea* area);  // computed in process, without log; false: no such call

}  // namespace friday::shim
