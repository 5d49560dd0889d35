// Threads and processes: how they begin and end, other programs that they execute, and how a process goes on without
// the shim. With them the futexes and limits that the end of one touches.
#pragma once

#include "core/shim/trace.h"

namespace friday::shim {

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

// ---- exec.cc
void exec_forget();                      // programs that this process executes are not recorded
void exec_remember(char** environment);  // what a program's exec must find again
void do_exec(CallFrame* frame, ThreadArea* area);
long exec_call(ThreadArea* area, long call, const uint64_t* arguments);  // as it is

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

}  // namespace friday::shim
