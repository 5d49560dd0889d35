// Who runs: the token that one thread of a process has at a time, the turn that one process of a group has which
// shares memory, and how both are handed over where the program makes no call.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

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

}  // namespace friday::shim
