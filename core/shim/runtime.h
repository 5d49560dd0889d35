// The shim's own world: it runs inside the recorded or replayed program, without libc, on its own stacks, with general
// registers only. This header declares what its files share. Nothing here is visible outside (shim_abi.h is).
//
// Who may run when: the program's code and all of the shim that touches shared state run under the thread token
// (token.cc), except while a thread makes a native call; signal handlers of the shim only append to the thread's
// pending ring. One process, one trace.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <asm/errno.h>
#include <linux/futex.h>

#include "core/shim/call_flags.h"
#include "core/shim/call_numbers.h"
#include "core/shim/shim_abi.h"

extern "C" {
void* memcpy(void* to, const void* from, size_t size);
void* memmove(void* to, const void* from, size_t size);
void* memset(void* to, int byte, size_t size);
int memcmp(const void* a, const void* b, size_t size);
}

namespace friday::shim {

// ---- entry.S
extern "C" {
long friday_syscall(long number, long a, long b, long c, long d, long e, long f);
// Makes the program's call unless a signal is pending: then kNotMade.
long friday_interruptible(ThreadArea* area, long number, const uint64_t* arguments);
extern char friday_interruptible_start[], friday_interruptible_call[], friday_interruptible_abort[];
void friday_enter();        // where patched call sites arrive
void friday_enter_yield();  // where a thread is sent that shall wait without a call
void friday_enter_loop();   // where a loop site arrives at its last pass
void friday_enter_trap();   // where calls caught by SIGSYS arrive
[[noreturn]] void friday_exit_thread(uint64_t low, uint64_t size,
                                     uint64_t code);  // unmaps [low, low + size) and ends the thread
[[noreturn]] void friday_leave(CallFrame* frame);     // back to the program, frame->full or not
long friday_clone(long flags, void* stack, ThreadArea* area, long parent_tid, long child_tid,
                  long tls);                                    // child: friday_thread_main(area)
long friday_trap_instruction();                                 // int3; ret
void friday_copy_out(void* to, const void* from, size_t size);  // rep movsb at friday_copy_instruction
struct Probe {
  uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
};
int friday_probe(Probe* probe) __attribute__((returns_twice));
extern char friday_copy_instruction[], friday_trap_site[], friday_syscall_instruction[];
extern char friday_signal_return[];               // restorer of the shim's own handlers
int friday_snapshot(format::ImageRecord* image);  // 0 when taken, 1 when resumed at replay
void friday_xsave(void* area, uint64_t mask);
void friday_xrstor(const void* area, uint64_t mask);
extern char __ehdr_start[], friday_text_end[];
int friday_dispatch(CallFrame* frame);  // dispatch.cc
void friday_thread_main(ThreadArea* area);
void friday_yield(CallFrame* frame);  // yield.cc
}

inline constexpr long kNotMade = -512;

template <typename... Args>
inline long native(long number, Args... args) {
  uint64_t a[6] = {(uint64_t)args...};
  return friday_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
inline bool failed(long result) { return (unsigned long)result >= (unsigned long)-4095L; }

inline ThreadArea* me() {
  ThreadArea* area;
  asm("mov %%gs:16, %0" : "=r"(area));
  return area;
}
// Runs `read`, which follows pointers of the program; false when one of them led nowhere, as the kernel would say
// EFAULT.
template <typename Read>
inline bool probed(Read&& read) {
  ThreadArea* area = me();
  Probe probe;
  const uint64_t outer = area->probe;
  const bool bad = friday_probe(&probe);
  if (!bad) {
    __atomic_store_n(&area->probe, (uint64_t)&probe, __ATOMIC_RELAXED);
    asm volatile("" ::: "memory");
    read();
    asm volatile("" ::: "memory");
  }
  __atomic_store_n(&area->probe, outer, __ATOMIC_RELAXED);
  return !bad;
}
struct FileStat {  // struct stat of stat(2)
  uint64_t device, inode, links;
  uint32_t mode, uid, gid, pad;
  uint64_t rdev;
  int64_t size, block_size, blocks, times[6], reserved[3];
};
inline bool is_regular(const FileStat& st) { return (st.mode & 0170000) == 0100000; }
inline bool is_zero_device(const FileStat& st) {
  return (st.mode & 0170000) == 0020000 && st.rdev == 0x105;
}  // /dev/zero
inline ThreadArea* area_of(uint32_t number) { return (ThreadArea*)(kAreasAddress + number * kAreaStride); }
inline bool all_zero(const uint64_t* words, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (words[i]) return false;
  return true;
}
inline uint64_t align8(uint64_t size) { return (size + 7) & ~7ull; }
inline uint64_t page_up(uint64_t address) { return (address + 4095) & ~4095ull; }
inline size_t length_of(const char* text) {
  size_t n = 0;
  while (text[n]) n++;
  return n;
}
inline bool equal(const char* a, const char* b) {
  for (; *a && *a == *b; a++, b++) {}
  return *a == *b;
}
template <typename T>
inline T min(T a, T b) {
  return a < b ? a : b;
}

extern Control control;

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
inline constexpr unsigned kCallCount = 471;
struct CallTable {
  CallInfo calls[kCallCount] = {};
};
extern const CallTable call_storage;
inline const CallInfo& call_info(uint64_t number) {
  return call_storage.calls[number < kCallCount ? number : kCallCount - 1];
}

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed);
uint32_t record_checksum(const void* record, size_t size, uint64_t offset);

inline constexpr uint64_t kFutexCommand =
    127;  // of a futex(2)'s operation, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
inline bool futex_waits(const uint64_t* arguments) {
  const uint64_t command = arguments[1] & kFutexCommand;
  return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
}

// ---- trace.cc: the log, written or read
struct EventWriter {
  format::EventRecord* event;
  // Starts an event of the calling order; arguments are copied from the frame.
  EventWriter(format::RecordType type, ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count);
  void part(format::PartKind kind, const void* data, size_t size, uint64_t address = 0);
  // Reserves a part of `size` bytes to be filled by the caller.
  void* part_space(format::PartKind kind, size_t size, uint64_t address = 0);
  void memory(const void* address, size_t size) {
    if (address && size) part(format::kMemory, address, size, (uint64_t)address);
  }
  void commit(long result, uint64_t hash, uint64_t entry, uint64_t exit);
  void commit_clock(const uint64_t* words, uint64_t now);  // kFlagClock

 private:
  void finish(uint64_t now);
};
void record_native(ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count, long result,
                   uint64_t entry, uint64_t hash = 0);     // without parts
void* record_begin(format::RecordType type, size_t size);  // not an event
void record_commit(void* record);
bool trace_attach(int fd);  // maps the window and starts writing
void trace_detach();        // the window is free again
bool trace_alive();         // false once there was no room
void trace_end(format::EndReason reason, int detail, const char* text);
void end_at_call(const CallFrame* frame);  // one that is not handled: trace_end, with what it was asked to do
uint64_t kernel_ticks();                   // when the time-stamp counter is not the clock
inline constexpr long kTurnNs = 1000000;   // a holder that others wait for hands over at its next call after this long
bool elapsed(uint64_t since, long ns);     // `since` in ticks
inline bool turn_lasted(uint64_t since) { return elapsed(since, kTurnNs); }
void clock_calibrate();
extern uint32_t clock_kind;
inline uint64_t ticks_now() {
  if (clock_kind != format::kClockTsc) return kernel_ticks();
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}
inline format::FileHeader* trace_header() { return (format::FileHeader*)format::kWindowAddress; }

// ---- token.cc
void token_start(ThreadArea* first);
void token_lend(ThreadArea* area, bool returns_at_once);  // the calling thread goes into a native call
bool token_retake(ThreadArea* area);                      // true: it was never let go
bool token_acquire(ThreadArea* area);                     // false: other processes may have run meanwhile
bool token_yield(ThreadArea* area);                       // lets the oldest waiter go first; true: other processes ran
// A token as one who waits for it sees it: `state` under `mask` is `held` while somebody has it, since `since` (ticks),
// who was seen on `processor` then; `go` is not 0 once it has been handed over.
struct Token {
  const uint32_t& state;
  uint32_t mask, held;
  const uint64_t& since;
  const uint32_t& processor;
  const uint32_t& go;
};
inline constexpr uint32_t kNowhere = ~0u;  // it has been handed over, but who has it did not run yet
// The caller's, as the kernel keeps it for its vdso in the limit of a segment (arch/x86/include/asm/segment.h,
// CPUNODE).
inline uint32_t own_processor() {
  uint32_t limit = 0;
  asm volatile("lsl %1, %0" : "+r"(limit) : "r"(15 * 8 + 3) : "cc");
  return limit & 0xfff;
}
// As a rule who has a token is about to lend it, and on the same processor must run first: to let it is cheaper than to
// sleep and be woken. The caller stands in the queue, as one who is patient. Returns once the token is not held any
// more, or is the caller's, or after some tries.
void let_holder_run(const Token& token);
// A waiter's flag that it is patient, and how many have it. Whoever takes a waiter out of the queue ends its patience,
// as it does itself: it may have been killed meanwhile.
inline void begin_patience(uint32_t* waiter, uint32_t* all) {
  *waiter = 1;
  __atomic_add_fetch(all, 1, __ATOMIC_SEQ_CST);
}
inline void end_patience(uint32_t* waiter, uint32_t* all) {
  if (__atomic_exchange_n(waiter, 0, __ATOMIC_SEQ_CST)) __atomic_sub_fetch(all, 1, __ATOMIC_SEQ_CST);
}
bool token_wanted();                 // somebody waits
bool token_lasted(long ns);          // this turn has
bool token_overdue();                // and this turn has lasted
void token_leave(ThreadArea* area);  // a thread ends
void token_keep(ThreadArea* area);   // after a child by vfork has had it in the thread's name
// The calling thread, which has the token, is about to execute another program, or has failed to: a poke that came to
// that program, which has no handler for it yet, would kill it. While this is on, none is sent and none is on its way.
void token_spare(ThreadArea* area, bool on);
void log_release(ThreadArea* lender);  // the entry of the call that it is in
extern volatile uint32_t live_threads;

// ---- token_group.cc: processes that share memory. All but group_attach under the process's own token.
bool group_attach(int fd);                                // maps the TokenArea
extern uint32_t group_self;                               // this process as a member; 0: it shares nothing
inline uint32_t group_member() { return group_self; }     // shares memory: what follows does something
bool group_held();                                        // it is this process's turn
bool group_wanted();                                      // another process waits
bool group_overdue();                                     // and this one's turn has lasted
void group_lend(ThreadArea* in_call, bool quick);         // null: not for a call
bool group_enter(ThreadArea* area, ThreadArea* in_call);  // true: no other process ran since group_lend
void group_spare(const ThreadArea* area, bool on);        // token_spare(), of the other processes
void group_leave();                                       // for good: this process's recording has ended
void group_forget();  // in a child that is not recorded: it is no part of the recording
// For who looks from outside (core/record/standstill.h): thread `tid` of this process has kept its token over so many
// looks of one that waits. 0: no more. Under the guard of that token.
void group_note_kept(uint32_t tid, uint32_t looks);
bool group_forked();  // in the child, which has no turn yet; false: no room for it
// The process maps a thing that others may map: it is in their group from now on. Its number, 0: no room.
uint32_t group_share(uint64_t device, uint64_t inode, bool* fresh);
bool group_share_inherited();  // anonymous memory, which only children will share; false: no room
uint32_t group_object(uint64_t device, uint64_t inode);  // its number if it is shared, else 0
bool group_has(uint32_t object);                         // this process runs in turn with those who have mapped it
bool group_join(uint32_t object);                        // from now on it does; false: no room
uint32_t group_files();                                  // how many files are shared: grows

// ---- shared.cc: memory that several processes map
// What the kernel mapped at `address` is shared: notes contents, joins the group. False: the recording has ended.
bool shared_record_map(uint64_t device, uint64_t inode, int fd, uint64_t offset, uint64_t address, uint64_t length,
                       bool readable, format::SharedMapPart* part);
// The same of memory without a name, which only forked children will have: anonymous, or of /dev/zero, which has an
// offset.
bool shared_record_inherited(uint64_t address, uint64_t length, uint64_t offset, format::SharedMapPart* part);
bool shared_wanted(const uint64_t* a, const FileStat& st);  // of mmap(2); st: zeros if it is no file
const format::SharedMapPart* shared_part(const format::EventRecord* event);
// A mapping has grown by mremap(2), by `length` at `address`: notes what is seen there. False: it is not shared, or the
// recording has ended.
bool shared_record_growth(uint64_t address, uint64_t length, format::SharedMapPart* part);
void shared_replay_growth(const format::SharedMapPart* part);
long shared_replay_map(const format::SharedMapPart* part, uint64_t length, uint64_t protection, bool fixed);
struct ChangedFile {
  uint32_t object;  // its number; 0: none
  uint64_t size;    // before the change
};
ChangedFile shared_changed(const CallFrame* frame);  // the mapped file that a call would change
ChangedFile shared_to_change(
    const CallFrame* frame);  // the same, for a call that is about to be made: it is this process's turn then
// What it changed, step by step. Contents that the program never had go into the trace.
struct SharedChanges {
  format::SharedWritePart steps[5];
  unsigned count = 0;
  bool known = true;  // false: what the call has put into the file cannot be read back
  void add(uint32_t object, uint64_t offset, uint64_t length, format::SharedChange change);
};
SharedChanges shared_record_changes(const CallFrame* frame, ChangedFile file, long result);
void shared_replay_changes(const format::EventRecord* event, const CallFrame* frame);
long do_shmat(CallFrame* frame, ThreadArea* area);
long do_shmdt(CallFrame* frame, ThreadArea* area);

// ---- yield.cc: handing the token over where the program makes no call
bool pause_yields(ThreadArea* area);  // counts a `pause`; true if the thread gives its turn away there
void yield_behind_call(CallFrame* frame, ThreadArea* area);
void enter_yield(CallFrame* frame, ThreadArea* area,
                 format::YieldKind kind);  // from a signal handler: `frame` leads there

// ---- loop.cc: sites in loops that may wait
uint64_t loops_passed(const ThreadArea* area);       // how many `area`'s thread has passed, in recording and replay
void loops_let(ThreadArea* area, uint64_t passes);   // it stops at the last of so many; 0: never
void loops_ask(ThreadArea* area);                    // in a handler: the next one that it passes is where it gives way
bool loops_yield(ThreadArea* area);                  // it has stopped; true: there is something to give way to
void loops_expect(const format::EventRecord* next);  // at replay: such a yield is the next event

// ---- spin.cc: loops without a call in which nothing changes
struct SpinFound {
  format::SpinPoint point;
  uint64_t steps, hash;
};
extern SpinFound spin_found;
// Not one that the kernel itself may send for what an instruction does: two of these at once become one.
inline constexpr int kPokeSignal = 64;
inline constexpr uint64_t kPokeValue = 0x656b6f702d6e7073;
// A waiter, after so many milliseconds at least, asks whether the thread that holds the token turns in circles. It
// holds the guard of that token (token_spare). Also: there is something for the thread to look at (held.cc).
void spin_poke(uint32_t pid, uint32_t tid, uint64_t milliseconds);
void spin_poked(const void* info);  // that thread learns how long the other has waited
// The poked thread, in its handler: true if it shall go on under the trap flag; then after each instruction.
bool spin_begin(const ThreadArea* area, const format::SpinPoint& now);
enum class Spin { searching, none, found };
Spin spin_step(const format::SpinPoint& now);
// A signal waits for a thread that makes no call: have it looked at again, later each time.
void spin_look_later(ThreadArea* area);
// A thread at `rip` turns in no such circle: if it has been long, whoever reads the recording is told.
void spin_tell(const ThreadArea* area, uint64_t rip);

// ---- replay.cc
void replay_start();                 // before the program runs: waits until its first event may happen
void replay_wait(ThreadArea* area);  // until it is this thread's turn
format::EventRecord* replay_expect(CallFrame* frame, ThreadArea* area, format::RecordType type, uint16_t call);
format::EventRecord* replay_peek();
void replay_end_of_trace();           // stands there, behind what others did before, if nothing follows
void replay_begin(ThreadArea* area);  // waits until the next event is this thread's and may happen
void replay_consume(format::EventRecord* event);
void replay_end_if_cut();  // Control::cut: not behind the last event
void replay_apply(const format::EventRecord* event);
// Contents of shared memory in front of the event at the cursor: the next record of them from `offset` on (0: the
// first).
const format::SharedPagesRecord* replay_shared_pages(uint64_t* offset);
void replay_forked();  // in the child: nothing was seen yet
void replay_hand_over();
// The next event is a signal's for this thread, due on the way out of what it does now.
bool replay_signal_follows(const ThreadArea* area);
// The next event is this thread's giving its turn away, at a place of this kind.
bool replay_yield_follows(const ThreadArea* area, format::YieldKind kind);
inline bool is_signal_of(const format::EventRecord* event, const ThreadArea* area) {
  return event && event->header.type == format::kSignal && event->header.thread == area->number;
}
// A call that is made again must come to what it came to.
void replay_same(format::EventRecord* event, uint64_t want, uint64_t got, CallFrame* frame, ThreadArea* area);
const void* replay_part(const format::EventRecord* event, format::PartKind kind, unsigned nth,
                        format::PartHeader* header);
long replay_call(CallFrame* frame, ThreadArea* area, const CallInfo& info);
[[noreturn]] void replay_fail(const char* what, long detail);
void trap(TrapReason reason, int detail);
void diverge(format::EventRecord* expected, uint32_t kind, uint32_t which, uint64_t want, uint64_t got,
             CallFrame* frame, ThreadArea* area, uint32_t type);

// ---- dispatch.cc
uint64_t hash_run(const char* data, uint64_t size, uint64_t seed);
struct IoVec;
void write_iov(EventWriter& writer, const IoVec* iov, uint64_t count, long result);
uint64_t hash_gathered(const uint64_t* iov, uint64_t count, uint64_t limit, uint64_t seed);
void write_outputs(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                   const uint32_t* before);
// After a call of the program's was interrupted: is it made again behind a handler with SA_RESTART?
bool restarts(const CallInfo& info, const CallFrame* frame, const ThreadArea* area);
void pass_through(CallFrame* frame, ThreadArea* area);
void record_described(CallFrame* frame, ThreadArea* area,
                      const CallInfo& info);  // made, and recorded as the table says
void record_failed(CallFrame* frame, ThreadArea* area,
                   long error);  // a call that is not made: what a kernel without it would say
inline const uint64_t* arguments_of(const CallFrame* frame) { return &frame->rdi; }

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

// ---- futex.cc: futexes with priority inheritance
bool futex_inherits(const uint64_t* arguments);
void do_futex_inheriting(CallFrame* frame, ThreadArea* area);

// ---- robust.cc: robust mutexes whose owner ends
void robust_thread_ends(ThreadArea* area);  // what the kernel does when it ends, by a call of its own
// While recording, in a process that shares memory.
void robust_publish(ThreadArea* area);  // the calling thread lets others at what it holds
enum class Look { turn_begins, turn_ends, at_event };
void robust_look(Look when);                       // for what the kernel has given back of those that were killed
void robust_woken(uint64_t address);               // a wait for this word has ended
void robust_attach(EventWriter& writer);           // what was found, to the event under way
void robust_mapping_call(const CallFrame* frame);  // is about to be made
void robust_mapped();                              // shared memory has been mapped
void robust_forked(ThreadArea* area);              // in the child
void robust_member_leaves();
void robust_apply(const format::EventRecord* event, bool before);  // at replay

// ---- limits.cc: the limit of the address space
long local_limit(CallFrame* frame, ThreadArea* area);  // getrlimit, setrlimit, prlimit64, without log
void do_limit(CallFrame* frame, ThreadArea* area);
void limits_count(long bytes);                  // the shim is about to map them, or has given them back
bool limits_asked(uint64_t* asked);             // what the program has set, for the next one; false: nothing
void limits_before_exec();                      // room for the next one's shim
void limits_after_exec(const uint64_t* asked);  // which was none
void limits_inherit(const char* text);          // by kSocketVariable, from the program before this one

// ---- leave.cc: the process goes on without the shim
inline constexpr char kUsesGs[] = "it sets the base of %gs, where Friday keeps what belongs to a thread";
inline constexpr long kRulesAsBefore = 1;
bool rules_calls(const CallFrame* frame);    // the call wants to filter or dispatch calls
long rules_refused(const CallFrame* frame);  // what the kernel would say to it: 0 if it agrees; kRulesAsBefore: it
                                             // agrees, and nothing changes
const char* reason_to_leave(const CallFrame* frame);  // of another call: why the shim cannot stay; null if it can
bool can_leave(const ThreadArea* area);
long refuse_instead(const CallFrame* frame,
                    const char* why);  // where it cannot: the error of the call, which is not made; a notice says so
bool is_fridays(uint64_t low, uint64_t size);  // some of the addresses are Friday's
[[noreturn]] void leave_at_call();             // the recording has ended: the program itself makes the call under way
bool leave_is_due();                           // in the handler of kPokeSignal
bool shim_has_left();
void leave_process(ThreadArea* area);  // in a handler: all but signals

// ---- exec.cc
void exec_forget();                      // programs that this process executes are not recorded
void exec_remember(char** environment);  // what a program's exec must find again
void do_exec(CallFrame* frame, ThreadArea* area);
long exec_call(ThreadArea* area, long call, const uint64_t* arguments);  // as it is

// ---- process.cc: threads, fork, exit
// clone(2), fork and vfork, brought to one form.
struct CloneRequest {
  uint64_t flags, stack, parent_tid, child_tid, tls;
};
long do_clone(CallFrame* frame, ThreadArea* area);
void do_thread_exit(CallFrame* frame, ThreadArea* area);
void do_exit_group(CallFrame* frame, ThreadArea* area);
// The program installs a filter of calls: from now on the shim makes none that the program does not make.
void process_seals(ThreadArea* area);
ThreadArea* area_create(uint32_t number);
void thread_arm(ThreadArea* area);           // %gs, signal stack, Syscall User Dispatch of the calling thread
inline constexpr uint64_t kHeldAt = 0x3000;  // held.cc
inline constexpr uint64_t kSignalStackAt = 0x4000, kSignalStackSize = 0x10000;  // in a thread's area

// ---- vfork.cc: children that run in their parent's memory, as the thread that made them (ThreadArea::borrowed)
bool is_vfork(const CloneRequest& c);
long do_vfork(CallFrame* frame, ThreadArea* area, const CloneRequest& c);
[[noreturn]] void vfork_child(ThreadArea* area);
void end_vfork_child(CallFrame* frame, ThreadArea* area);
bool parent_is_due(const ThreadArea* area, const format::EventRecord* next);  // at replay: the parent goes on
[[noreturn]] void resume_parent(CallFrame* frame, ThreadArea* area);
int& vfork_socket(ThreadArea* area);    // where the child has Friday's descriptor
uint8_t* vfork_node(ThreadArea* area);  // uuid of the node that the child becomes by execve

// ---- memory.cc: mapping calls
long do_mmap(CallFrame* frame, ThreadArea* area);
long do_brk(CallFrame* frame, ThreadArea* area);
long do_mremap(CallFrame* frame, ThreadArea* area);
long do_mprotect(CallFrame* frame, ThreadArea* area);
long do_madvise(CallFrame* frame, ThreadArea* area);
void path_of_descriptor(int fd, char* out, size_t size);  // empty if it has none
struct DescriptorLink {                                   // its name below /proc/self/fd
  char text[28] = "/proc/self/fd/";
  explicit DescriptorLink(int fd);
};
bool advice_changes_memory(uint64_t advice);                          // of madvise(2)
void replay_setting(const CallFrame* frame, const ThreadArea* area);  // personality, setrlimit, prlimit64
long do_io_setup(CallFrame* frame, ThreadArea* area);                 // Linux AIO: its ring is a mapping
long do_io_destroy(CallFrame* frame, ThreadArea* area);
long native_mapping(long call, const uint64_t* arguments);  // at replay: a mapping call as it is, with the watches told

// ---- signals.cc
void signals_install();
void signals_inherit();  // dispositions the program started with
long do_sigaction(CallFrame* frame, ThreadArea* area);
long do_sigprocmask(CallFrame* frame, ThreadArea* area);
long do_sigaltstack(CallFrame* frame, ThreadArea* area);
void do_sigreturn(CallFrame* frame, ThreadArea* area);
uint64_t signal_frame_hash(const CallFrame* frame);  // of what it reads
// Where a handler may be entered: behind a call (its result is in frame->rax), before it (the call is made when the
// handler returns), or anywhere else: the registers it returns to are in the frame.
enum class Moment { after_call, before_call, anywhere };
// Enters a handler of the program if one is due. True: the frame now leads into a handler.
bool signals_deliver(CallFrame* frame, ThreadArea* area, Moment moment);
void sigreturn_finish(CallFrame* frame);  // the last step of a return that no other handler follows
inline bool signals_pending(const ThreadArea* area) { return area->pending_head != area->pending_tail; }
bool handler_restarts(const ThreadArea* area);
inline constexpr unsigned kActionWords = 65 * 4;
void signals_keep(uint64_t* actions);  // what the program asked to be done with its signals
void signals_give_back(const uint64_t* actions);
void signals_apply_mask(ThreadArea* area);  // the program's mask becomes the kernel's
void signals_hand_on(ThreadArea* area);     // what has come for a thread that ends is for the others
// After a call that sets a mask while it waits (sigsuspend, ppoll, ...) was interrupted.
void signals_note_mask(const CallFrame* frame, ThreadArea* area);
void signals_rest(ThreadArea* area);         // the kernel's mask while no handler is due: the program's, or more of it
void signals_before_exec(ThreadArea* area);  // what the shim keeps to itself the kernel is told, for the next program
void signals_after_exec(ThreadArea* area);   // which was none
// The end of a child will be told by this signal, with a si_code that a fault may have.
void signals_expect_exit(int signal);
uint32_t signals_own_death(
    const CallFrame* frame,
    const ThreadArea* area);  // the signal by which a call kills the process that makes it; 0: none
void signals_step_on(
    CallFrame* frame,
    ThreadArea* area);  // where a program that single-steps itself goes on behind the shim: with its trap flag
// Sends a signal with this siginfo_t, which may look like a fault's, to the calling thread, or to any thread of the
// process.
void signals_send_own(int signal, const void* info, bool to_any_thread);
// What rt_sigqueueinfo(2), rt_tgsigqueueinfo(2) and pidfd_send_signal(2) come to.
long signals_queue(ThreadArea* area, const CallFrame* frame);
// A signal that the process itself sent with a positive si_code travels with kPretended instead, and its own si_code
// behind, so that nobody takes it for a fault. True: `info` was of that kind, and is now as it was sent.
inline constexpr int kPretended = -0x46726964;
inline bool signals_unmask(void* info) {
  int* const words = (int*)info;
  if (words[2] != kPretended) return false;
  words[2] = words[3];
  words[3] = 0;
  return true;
}
inline constexpr uint64_t kForcedSignals = (1ull << 30) /* SIGSYS */ | (1ull << 3) /* SIGILL */ |
                                           (1ull << 10) /* SIGSEGV */ | (1ull << 6) /* SIGBUS */ |
                                           (1ull << 63) /* kPokeSignal */;

// ---- held.cc: signals that the program blocks and the kernel must not
void held_add(ThreadArea* area, int signal, const void* info);  // in a handler
void held_release(ThreadArea* area, uint64_t mask);             // those not in `mask` come once more
void held_forget(ThreadArea* area);
void held_hand_on(ThreadArea* area);  // the thread ends
// Which blocks them, and what is in `mask`: the thread's own and, of what is held for any thread, `general`.
void held_to_kernel(ThreadArea* area, uint64_t mask, uint64_t general);
extern uint32_t ever_held;                           // so that no call has to look
long held_call(ThreadArea* area, CallFrame* frame);  // a call that may look for them
// The program's call; not made (kNotMade) while a signal waits. What interrupts it and is none of the program's
// business, such as a signal that it ignores, is not seen.
inline bool concerns_held(uint64_t call) {
  switch (call) {
    case sys::rt_sigtimedwait:
    case sys::rt_sigqueueinfo:
    case sys::signalfd:
    case sys::signalfd4:
    case sys::rt_tgsigqueueinfo:
    case sys::pidfd_send_signal: return true;
    default: return false;
  }
}
// A call that only a waiter's poke has interrupted (spin.cc) is made again.
template <typename Make>
inline long unless_poked(ThreadArea* area, Make&& make) {
  for (;;) {
    area->poked = 0;
    const long result = make();
    if (result != -EINTR && result != kNotMade) return result;
    if (!__atomic_exchange_n(&area->poked, 0, __ATOMIC_RELAXED) || signals_pending(area)) return result;
  }
}
inline long interruptible_call(ThreadArea* area, CallFrame* frame) {
  const uint64_t call = frame->rax;
  return unless_poked(area, [&] {
    const bool looks = ever_held || concerns_held(call);
    return __builtin_expect(looks, 0) ? held_call(area, frame)
                                      : friday_interruptible(area, (long)call, arguments_of(frame));
  });
}

// ---- channels.cc
struct Transfer;
void channel_opened(EventWriter& writer, int fd);  // emits a ChannelRecord soon, notes it on the event
void channel_forget(int fd);
void channel_duplicate(int from, int to);
void channel_changed(int fd);  // bound or connected
void channel_prepare(int fd);  // writes its ChannelRecord if it is new or has changed
struct Moved {
  format::Direction direction;
  uint64_t length;
  uint64_t hash = 0;
  uint16_t flags = 0;        // TransferFlag
  bool seen = true;          // false: the bytes never were in the program's memory, so that only their number is known
  uint32_t peer_length = 0;  // 0: the call does not name the other side
  const void* peer = nullptr;
  uint32_t message = 0;
};
void channel_transfer(EventWriter& writer, int fd, const Moved& moved);
bool channel_is_datagram(int fd);
bool channel_sends_header(int fd);  // an IPv4 header stands in front of what is sent through it
uint64_t channel_number(int fd);    // 0: none
uint64_t channel_hash(int fd);      // seed of the next outgoing transfer

// ---- collector.cc
bool collector_hello(int socket, HelloReply* reply, int* trace_fd, int* tokens_fd);
bool collector_module(uint64_t low, uint64_t high, uint64_t offset, uint64_t device, uint64_t inode, bool executable,
                      int fd, const char* path, ModuleReply** reply);
bool collector_fork(ForkReply* reply, int* trace_fd, int* socket_fd);
void collector_send(RequestKind kind, uint32_t reason, int detail, const char* text);
// A program is about to be executed, by this process or by its child by vfork; which, so that the collector can say
// what became of it. The child gets a socket of its own, for the node that it becomes.
void collector_executes(const char* path);
bool collector_spawn(const char* path, ForkReply* reply, int* socket_fd);
void collector_adopt(int socket);  // by a forked child
int& own_socket();                 // of the calling process: a child by vfork has descriptors of its own
bool collector_owns(int fd);
void collector_move();  // get out of the way of dup2(..., own_socket())

// ---- patch.cc
struct ModuleView {
  uint64_t low, high, offset;  // executable mapping
  uint64_t protection;         // PROT_ bits
  const char* path;
};
struct PatchedModule {
  uint64_t stubs = 0;                 // a kPadSize area near the module; 0: none was free
  uint32_t patched = 0, trapped = 0;  // call sites, and those left to the catch-all
  uint32_t done = 0;                  // sites of all kinds that are patched
};
// Applies `sites`, and moves those that it could to their front.
PatchedModule patch_module(const ModuleView& module, Site* sites, uint32_t count);
// The same sites again, with stubs at the same place.
void repatch_module(const ModuleView& module, const Site* sites, uint32_t count, uint64_t stubs);
const Patch* patch_of_resume(uint64_t address);  // by stub continuation
void find_site(CallFrame* frame);                // fills in CallFrame::site
const Patch* patch_of_return(uint64_t address);  // by address behind the syscall instruction
uint64_t loop_original(uint64_t address);  // of a moved instruction in the program; of anything else the address itself
bool in_stub(uint64_t address);            // of a call or a loop: code that is executed in place of the program's own
uint64_t loop_moved(uint64_t address);     // the reverse, for what lies behind the first byte of a window
void vdso_redirect(uint64_t low, uint64_t high, const HelloReply& offsets);
extern uint64_t vdso_was_at;  // where the first of the mappings was that are at kVdsoAddress now; 0: none are
bool code_give_back();        // all code is as in its files again; false: not everywhere
extern bool catch_all_only;
extern uint64_t stack_top;                                 // end of the main thread's stack; 0: not known
uint64_t* register_of(CallFrame* frame, unsigned number);  // as instructions number them

// ---- vector state (xsave.cc); `state` is the program's, as the kernel put it into a signal frame, in the standard
// form
void emulate_xsave(const uint8_t* code, bool compact, CallFrame* frame, const uint8_t* state);
// Of the components `wanted` x87, SSE, and those others whose values are not the initial ones.
uint64_t state_in_use(const uint8_t* state, uint64_t wanted);
// Stores the components `wanted` at `to`, marked as in use if they are so.
void store_state(uint8_t* to, const uint8_t* state, uint64_t wanted, bool compact);
bool writes_gs(uint64_t address);  // an `ud2` planted for wrgsbase, which is not carried out
bool emulate_instruction(CallFrame* frame,
                         const uint8_t* state);  // an `ud2` planted for rdtsc and friends; false: not ours
void instructions_give_back();                   // and they run by themselves again

// ---- state.cc: the optional state hash
extern uint32_t state_every;
void state_prepare();                                       // in the start, once the program's files are mapped
void state_note(const CallFrame* frame, ThreadArea* area);  // recording: the thread is about to make a call
void state_synced(const CallFrame* frame,
                  ThreadArea* area);  // the call is msync(2); whether or not there are hashes otherwise
// With the event that ends the process: hashes of all its writable memory, a part each.
void state_final(EventWriter& writer, const CallFrame* frame, const ThreadArea* area);
// StateDifference, with the hashes that differ.
unsigned state_differs(const format::StatePart* state, const CallFrame* frame, uint64_t* want, uint64_t* got);

// ---- aio.cc
bool aio_under_way();
// Around io_submit(2): what it asks for, of which requests the kernel took `taken`, and the channels of those.
void aio_note_submitted(const uint64_t* arguments);
void aio_forget_refused(const uint64_t* arguments, long taken);
void aio_prepare_channels(const uint64_t* arguments, long taken);
void aio_write_keys(EventWriter& writer, uint64_t list, uint64_t count, long result);
void aio_write_events(EventWriter& writer, const void* events,
                      long count);  // of io_getevents(2), and what the requests have moved

// ---- hidden.cc
void hide_data(const uint64_t* auxv);  // from those who ask the loader what is loaded where

// ---- image.cc
void image_prepare(const HelloReply& hello, const uint64_t* auxv);  // what friday_snapshot does not see by itself
void module_note(const ModuleReply& reply, const ModuleView& module, uint64_t device, uint64_t inode,
                 const PatchedModule& sites);
// The copy that serves a mapping of the start image; zeros if none.
struct FileNote {
  uint64_t device, inode, size;
  uint8_t file[16];
};
inline constexpr unsigned kMaxFileNotes = 1024;
extern FileNote file_notes[kMaxFileNotes];
extern unsigned file_note_count;
extern format::ImageRecord image_registers;
// The components of vector state that the recording machine had and that we keep: x87, SSE, AVX, AVX-512; and the bytes
// of all of them.
inline uint64_t state_mask() { return image_registers.xcr0 & 0xe7; }
inline constexpr uint32_t kMostState = 2688;
struct MapLine {
  uint64_t low, high, offset, device, inode;
  uint32_t protection;
  bool shared;
  char path[format::kPathBytes];
};
const char* parse_map_line(const char* text, MapLine* out);  // next line, or null at the end
char* read_maps();                                           // whole /proc/self/maps in a static buffer

// ---- vdso calls of the real, moved vdso
extern long (*vdso_clock_gettime)(long, void*);
extern long (*vdso_gettimeofday)(void*, void*);
extern long (*vdso_time)(void*);

}  // namespace friday::shim
