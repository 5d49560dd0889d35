// Which thread runs: the token, which one thread of a process has at a time; the token of a token group, which one of
// the processes that share memory has at a time; and how both are handed over where the program makes no call.
// Functions are called by the thread that has its process's token, unless a comment says otherwise.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- token.cc
void token_start(ThreadArea* first);  // in a new process: its only thread has the token
// Around a system call of the calling thread. token_lend lets other threads take the token; `returns_at_once` says that
// the call usually does not block, so that no waiter is woken for it. token_retake takes the token back, and waits for
// it if another thread has it. It returns true if no other thread or process has run meanwhile.
void token_lend(ThreadArea* area, bool returns_at_once);
bool token_retake(ThreadArea* area);
// Waits for the token, which the caller does not have. Returns false if other processes of the group may have run.
bool token_acquire(ThreadArea* area);
// Gives the token to the thread that has waited longest, and waits for it. True: other processes of the group have run.
bool token_yield(ThreadArea* area);
// A token as a waiter sees it. While somebody has it, `state` & `mask` equals `held`.
struct Token {
  const uint32_t& state;
  uint32_t mask, held;
  const uint64_t& since;      // ticks at which its present turn began
  const uint32_t& processor;  // on which the holder was seen last, or kNowhere
  const uint32_t& go;         // not 0 once the token has been handed to this waiter
};
inline constexpr uint32_t kNowhere = ~0u;  // the token was handed over, and the new holder has not run yet
// The processor that the caller runs on, from the segment limit in which the kernel keeps its number for the vdso
// (GDT_ENTRY_CPUNODE in arch/x86/include/asm/segment.h).
inline uint32_t own_processor() {
  uint32_t limit = 0;
  asm volatile("lsl %1, %0" : "+r"(limit) : "r"(15 * 8 + 3) : "cc");
  return limit & 0xfff;
}
// Polls for the token. The holder usually is about to lend it; if it is on the caller's processor, it must run first,
// so the caller yields the processor. That is cheaper than to sleep and be woken. The caller is in the queue and is
// patient. Returns when the token is no longer held, when it was handed to the caller, or after some tries.
void let_holder_run(const Token& token);
// A waiter's flag that it is patient (that it polls), and the number of such waiters. Whoever removes a waiter from the
// queue ends its patience, and so does the waiter itself.
inline void begin_patience(uint32_t* waiter, uint32_t* all) {
  *waiter = 1;
  __atomic_add_fetch(all, 1, __ATOMIC_SEQ_CST);
}
inline void end_patience(uint32_t* waiter, uint32_t* all) {
  if (__atomic_exchange_n(waiter, 0, __ATOMIC_SEQ_CST)) __atomic_sub_fetch(all, 1, __ATOMIC_SEQ_CST);
}
// How long a waiter sleeps between two looks, in nanoseconds: about a millisecond if it is the first in the queue,
// longer the further behind it is. Else the looks of some hundred waiters alone would take both processors from the
// holder.
inline long pause_of_looks(unsigned looks, uint32_t place) {
  if (place == 0 && looks < 2) return kTurnNs / 2;
  return kTurnNs * (long)min<uint64_t>(place + 1, 100);
}
bool token_wanted();                         // whether another thread, or another process of the group, waits
bool token_lasted(long ns);                  // whether the present turn has lasted so many nanoseconds
bool token_overdue();                        // whether somebody waits and the turn has lasted kTurnNs
void token_leave(ThreadArea* area);          // the calling thread ends
void token_give_up(const ThreadArea* area);  // if the thread has it, gives it to a waiter or to nobody
// Takes the token back for the parent after a vfork child, which may have been killed, has used it in its name.
void token_keep(ThreadArea* area);
// The same when the recording has ended meanwhile, so that nobody needs the token.
void token_wait_no_more(ThreadArea* area);
// `on`: the calling thread is about to execute another program, which a poke would kill, since it has no handler yet.
// From the return of this call on none is sent and none is on its way. Off: the call has failed.
void token_spare(ThreadArea* area, bool on);
void log_release(ThreadArea* lender);  // writes the release event of the call that `lender` is in
extern volatile uint32_t live_threads;

// ---- token_group.cc: token groups, the processes that share memory
bool group_attach(int fd);   // at the start: maps the TokenArea
extern uint32_t group_self;  // number of this process as a member; 0: it shares no memory
inline uint32_t group_member() { return group_self; }
bool group_held();     // whether it is this process's turn
bool group_wanted();   // whether another process waits for the group's token
bool group_overdue();  // whether that is so and this process's turn has lasted kTurnNs
// Let other processes take the group's token, and take it back. `in_call`: the thread that is in a call meanwhile, null
// if there is none; `quick`: the token will be wanted back at once. group_enter returns true if no other process has
// run.
void group_lend(ThreadArea* in_call, bool quick);
bool group_enter(ThreadArea* area, ThreadArea* in_call);
// For a process that goes on in another trace while no process of the group runs (part_together). It lends the token
// for the call that it is about to make, and looks whether another process has had it since; if not, it has the token
// again. Then it goes on with a turn that stands in its new trace.
void group_pauses(ThreadArea* area);
bool group_kept();
void group_goes_on(ThreadArea* area, bool kept);
void group_is_left();  // by the process, which has not its token; at replay there are no groups
void group_spare(const ThreadArea* area, bool on);  // token_spare() for pokes by other processes
void group_leave();                                 // this process's recording has ended
void group_forget();                                // in a forked child that is not recorded
// Notes in TokenArea::kept that thread `tid` has kept its process's token over so many looks of a waiter; 0: no longer.
// The collector reports it (core/record/standstill.h). The caller holds the guard of that token.
void group_note_kept(uint32_t tid, uint32_t looks);
bool group_forked();  // in a recorded forked child, which becomes a member without a turn; false: there is no room
// The process maps a file or segment that others may map, and joins the token group of those that have. Returns the
// number of the shared object, 0 if there is no room; `fresh`: no event has told of the object yet.
uint32_t group_share(uint64_t device, uint64_t inode, bool* fresh);
// The process goes on in a new trace with all others that have mapped the object: what was recorded of it before `cut`
// does not count any more. False: there is no room.
bool group_begins(uint64_t device, uint64_t inode, uint32_t cut);
// Of the contents that the object had then: whether what lies between `low` and `high` is still to be written, and that
// it has been. Under the group's token.
bool group_lacks(uint32_t object, uint64_t low, uint64_t high);
void group_has_written(uint32_t object, uint64_t low, uint64_t high);
bool group_share_inherited();                            // the same for memory that only children can share
uint32_t group_object(uint64_t device, uint64_t inode);  // number of the shared object; 0: it is not shared
bool group_has(uint32_t object);   // whether the process is in the token group of those that have mapped the object
bool group_join(uint32_t object);  // joins it; false: there is no room
uint32_t group_files();            // how many files are shared objects; never decreases

// ---- yield.cc: yields, where the token is handed over without a call
bool pause_yields(ThreadArea* area);  // counts a `pause`; true if the thread must yield there
void yield_behind_call(CallFrame* frame, ThreadArea* area);
// Changes `frame`, the registers to which a signal handler will return, so that the thread yields.
void enter_yield(CallFrame* frame, ThreadArea* area, format::YieldKind kind);

// ---- loop.cc: loop sites
uint64_t loops_passed(const ThreadArea* area);       // how many sites the thread has passed since it began
void loops_let(ThreadArea* area, uint64_t passes);   // it enters the shim at the last of the next `passes`; 0: never
void loops_ask(ThreadArea* area);                    // in a handler: it enters the shim at the next site
bool loops_yield(ThreadArea* area);                  // it has entered the shim at a site; true: it must yield
void loops_expect(const format::EventRecord* next);  // at replay: the next event is a yield at a site

// ---- spin.cc: pure spins
struct SpinFound {
  format::SpinPoint point;
  uint64_t steps, hash;  // instructions of an iteration, and format::spin_hash
};
extern SpinFound spin_found;
// The signal of a poke. Not one that an instruction can raise: of two such signals at the same time one is lost.
inline constexpr int kPokeSignal = 64;
inline constexpr uint64_t kPokeValue = 0x656b6f702d6e7073;  // si_value of a poke
inline constexpr uint64_t kLookValue = 0x6b6f6f6c2d6e7073;  // of a poke by the timer of part_look_again()
// Pokes a thread: a waiter has waited so many milliseconds at least for the token, and holds its guard (token_spare);
// or a signal is held for the thread (held.cc).
void spin_poke(uint32_t pid, uint32_t tid, uint64_t milliseconds);
void spin_poked(const void* info);  // in the handler: takes the milliseconds from the siginfo_t
// In the handler: whether the thread may be in a pure spin and must single-step. spin_step is then called after each
// instruction; with the result `found`, spin_found describes the loop.
bool spin_begin(const ThreadArea* area, const format::SpinPoint& now);
enum class Spin { searching, none, found };
Spin spin_step(const format::SpinPoint& now);
// A signal is pending for a thread that makes no call: interrupts it again later, after longer and longer times.
void spin_look_later(ThreadArea* area);
// The thread at `rip` is not in a pure spin. If others have waited long, sends a notice.
void spin_tell(const ThreadArea* area, uint64_t rip);

}  // namespace friday::shim
