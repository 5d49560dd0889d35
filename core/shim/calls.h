// The program's system calls: the table of them (calls.def) as data, and what the shim does with a call while
// recording. replay.h has the replay of a call. All functions run on the thread that makes the call and while it has
// the token, unless a comment says otherwise.
//
// `frame` always has the call's number in rax and its arguments; `arguments`, `a`: its six arguments. `result` is the
// kernel's: a value, or -errno.
#pragma once

#include <asm/socket.h>
#include <linux/futex.h>

#include "core/shim/call_flags.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/memory.h"
#include "core/shim/trace.h"

namespace friday::shim {

// ---- call_table.cc: calls.def as data. Its head explains rules and shapes.
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
// Memory that a call reads or writes, behind the pointer in `argument`. `other`, an argument too, and `size` in bytes
// say how much, according to `shape`.
struct Operand {
  Shape shape;
  uint8_t argument, other;
  uint16_t size;
};
struct CallInfo {
  const char* name;
  uint8_t arity;
  uint8_t narrow;  // the bits of the arguments whose registers' upper halves the kernel does not look at
  Rule rule;
  uint32_t flags;  // CallFlag
  Operand outputs[4], inputs[5];
};
// Entries of the table, by call number. The last one stands for every number that is not in calls.def.
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

// The MSG_ flags that the call is given (MessageFlag).
inline uint64_t message_flags(const CallInfo& info, const uint64_t* arguments) {
  return info.flags & kFlags3 ? arguments[3] : info.flags & kFlags2 ? arguments[2] : 0;
}
// Whether the call waits for any of several descriptors.
inline bool polls(uint64_t call) {
  return call == sys::poll || call == sys::ppoll || call == sys::select || call == sys::pselect6 ||
         call == sys::epoll_wait || call == sys::epoll_pwait || call == sys::epoll_pwait2;
}

// FUTEX_CMD_MASK: the operation of a futex(2) without its flags.
inline constexpr uint64_t kFutexCommand = 127;
inline bool futex_waits(const uint64_t* arguments) {
  const uint64_t command = arguments[1] & kFutexCommand;
  return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
}

// ---- own_program.cc
// Makes a call with a path (kPathIn), which may be that of /proc/self/exe.
long call_with_path(ThreadArea* area, CallFrame* frame, const CallInfo& info);

// ---- dispatch.cc
// Makes a call that is neither recorded nor replayed: the recording has ended, or a debugger calls a function.
void pass_through(CallFrame* frame, ThreadArea* area);

// ---- record_call.cc: a call while recording
void record_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
bool is_clock(uint64_t call);
// Reads a clock through the vdso. False: the vdso cannot answer this call.
bool read_clock(const CallFrame* frame, long* result);
// Whether the interrupted call must be made again after the pending signal's handler (SA_RESTART, signal(7)).
bool restarts(const CallInfo& info, const CallFrame* frame, const ThreadArea* area);
// Makes a call that the table describes in full, and records it.
void record_described(CallFrame* frame, ThreadArea* area, const CallInfo& info);
// Records a call that is not made and fails with `error`, a negative error number.
void record_failed(CallFrame* frame, ThreadArea* area, long error);

// The block_hash of the bytes that a call is to send or write, and how many; 0: not computed, or none.
struct Contents {
  uint64_t hash = 0, length = 0;
};
// A call that was made while recording.
struct Recorded {
  long result;          // or kNotMade
  bool stolen;          // another thread or process has run meanwhile: the call's release event is written
  ChangedFile changed;  // a file that others may have mapped, and that the call has changed
  uint64_t hash;        // of its inputs
  Contents contents;
  uint64_t entry, exit;  // ticks
};
// What a call has read at its first attempt, if that has no event and the call is made again. Its inputs are not hashed
// again then, since the kernel may have written to them: the time that is left, or which descriptors are ready.
struct FirstLook {
  bool taken = false;
  uint64_t hash = 0;
  Contents contents;
};
// `since`: the ticks when the call was made for the first time, if it has waited before; 0: it has not.
Recorded make_call(CallFrame* frame, ThreadArea* area, const CallInfo& info, uint64_t since = 0,
                   const FirstLook& first = {});
// Ends the recording at a call that was made but cannot be recorded. The message to the user names the call, and then
// says `why`.
void end_at_call(CallFrame* frame, long result, const char* why);
// What the call wrote cannot be read back: another thread or process has unmapped or truncated it before this thread
// had the token again, or the call has written over its own list of buffers, or the length is not that of what was
// written.
inline constexpr char kGone[] = "into memory that cannot be read back as its arguments describe it";

// The sizes, in bytes, of buffers whose lengths are value-result arguments, as they were before the call; 0: it has
// none.
struct Offered {
  uint32_t length = 0;   // of Shape::length
  uint32_t name = 0;     // of a message's address (msg_namelen)
  uint64_t control = 0;  // of a message's control data (msg_controllen)
};

// ---- reached.cc: what a call has written before it came to memory that cannot be written
// Such a call fails, for example with EFAULT, or it succeeds and returns how much it has written in whole messages,
// blocks or records. Either way it has written more than its result tells, and its event must have these bytes, too.

// Adds, of the `size` bytes at `address`, those before the first page that cannot be written.
void write_reached(EventWriter& writer, uint64_t address, uint64_t size);
// The same for a call that has succeeded. `address` is where its result ends, `size` how many bytes more it was to
// write. Adds nothing if all of these can be read, since then the call has ended for another reason.
void write_behind(EventWriter& writer, uint64_t address, uint64_t size);
// The same for an iovec, of whose buffers it has filled the first `done` bytes.
void write_behind(EventWriter& writer, const IoVec* iov, uint64_t count, uint64_t done);
// Whether the call has failed because it came to memory that cannot be written, so that it may have written something
// before.
bool reached_in_part(const CallFrame* frame, long result);
// Adds what a call that has failed so can have written, by its outputs in the table.
void write_reached(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Offered& offered);
// Adds what a call that has succeeded can have written behind its result, by its outputs in the table.
void write_behind(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                  const Offered& offered);

// ---- outputs.cc: what a call has written to the program's memory
// Adds the first `result` bytes of the buffers of an iovec to the event.
void write_iov(EventWriter& writer, const IoVec* iov, uint64_t count, long result);
void write_outputs(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                   const Offered& offered);
// Instead of write_outputs() in a schedule: adds the first bytes of each message that the call has received (kIn).
void write_beginning(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result);
// To be called before the call is made, because the call changes these sizes.
Offered note_offered(const CallInfo& info, const CallFrame* frame);
// Whether the call's value-result length counts instructions of 8 bytes: those of a socket's filter.
inline bool counts_instructions(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  return frame->rax == sys::getsockopt && a[1] == SOL_SOCKET && a[2] == SO_GET_FILTER;
}
bool fills(int pipe);       // whether a vmsplice(2) on this end of a pipe reads from the pipe
bool is_own(uint64_t pid);  // whether it is the id of this process or of one of its threads

// ---- transfers.cc: what a call has done to channels
// The block_hash of up to `limit` bytes in the buffers of an iovec, one after the other.
uint64_t gathered_contents(const uint64_t* iov, uint64_t count, uint64_t limit);
// Writes the ChannelRecords of the channels that the call has used. To be called before its event begins.
void prepare_channels(const CallInfo& info, const CallFrame* frame, long result);
// Adds the bytes that the call has sent or received.
void note_transfer(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Recorded& done);
// Adds the bytes that the kernel has copied from one channel to another.
void note_copy(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result);
// Adds what the call has written to the standard output or error to the event, as far as it is kept; in a schedule,
// the first bytes of what it has sent.
void note_output(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Recorded& done);
extern uint64_t output_limit;  // HelloReply::output_mib, in bytes
// Adds the descriptors that the call has created and, of other calls, the child that a wait has returned, or whether a
// call on a lock or a semaphore takes or releases it.
void note_descriptors(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result);

// ---- inputs.cc
// A hash of the memory that the call reads; 0 if it reads none. Where this includes bytes to be sent or written,
// `contents`, if it is not null, gets their own hash and length, without a second pass over them.
uint64_t input_hash(const CallInfo& info, const CallFrame* frame, Contents* contents = nullptr);

// ---- codes.cc: calls for which a code among their arguments says what they write
// A block of memory that the call may write.
struct Block {
  uint64_t address = 0, size = 0;
  bool known = true;       // false: unknown code. The recording ends there if the call succeeds
  bool by_result = false;  // the call's result is the number of bytes that it has written, at most `size`
};
inline bool is_coded(const CallInfo& info) { return info.outputs[0].shape == Shape::coded; }
// Before the call: the block that it will write.
Block coded_output(const CallFrame* frame);
// After the call has succeeded: makes `out` exact. `inner` becomes a second block, behind a pointer in the first.
// False: it is not known what the call has written.
bool coded_complete(const CallFrame* frame, const ThreadArea* area, long result, Block* out, Block* inner);
// After the call has failed with EFAULT: what it can have written before. `out`: of coded_output().
void write_reached_coded(EventWriter& writer, const CallFrame* frame, const Block& out);
// Whether the call may block, although the table says kQuick.
bool waits_by_code(const CallFrame* frame);
void note_fcntl(EventWriter& writer, const uint64_t* arguments, long result);
// The error, as a negative number, with which a call fails that would harm the recording; 0: the call may be made.
// ENOSYS: it counts as refused, like calls that the table refuses.
long refused_for_shim(const CallFrame* frame, const ThreadArea* area);

// Continues `hash`, that of what a call has read so far, with the `size` bytes at `address`. Returns it unchanged if
// they cannot be read.
uint64_t hash_at(uint64_t address, uint64_t size, uint64_t hash);

// ---- tracing.cc: ptrace(2)
Block tracing_output(const uint64_t* arguments);
Block tracing_inner_output(const uint64_t* arguments, long result);  // after the call has succeeded
uint64_t tracing_input_hash(const uint64_t* arguments);
enum class ShimIn { no, yes, unknown };
ShimIn shim_in(uint64_t pid);  // whether the process has the shim; unknown if it is gone or this one may not trace it
bool asks_to_be_traced(const CallFrame* frame);
bool tracing_refused(const CallFrame* frame, const ThreadArea* area);

// ---- ioctls.cc
int ioctl_output_bytes(uint64_t code);  // how many bytes the request writes at its argument; -1: not known
// After a success: the block behind a pointer in the argument. False: it is not known what the request has written.
bool ioctl_inner_output(const uint64_t* a, Block* inner);
uint64_t ioctl_input_hash(const uint64_t* a);
uint32_t ioctl_command(const uint64_t* a);  // the code inside the argument of a request that has several; 0: none

// ---- special.cc
// Records or replays a call whose rule is kSpecial; frame->rax becomes its result. Returns true if all registers must
// be restored from the frame.
bool special_call(CallFrame* frame, ThreadArea* area);
// Whether such a call is replayed like one that the table describes in full.
bool special_is_plain(const CallFrame* frame);
// Makes a call that changes only what the shim itself keeps, without writing an event. False: it is no such call.
bool local_call(CallFrame* frame, ThreadArea* area);

}  // namespace friday::shim
