// Threads and processes: how they are created and end, execve(2), and how the shim leaves a process. Also the futexes
// and the resource limit for which the kernel's own behaviour would not replay. A do_ function handles a system call of
// the program, while recording and at replay, and returns its result. All run under the token, unless a comment says
// otherwise.
#pragma once

#include "core/shim/memory.h"
#include "core/shim/trace.h"

namespace friday::shim {

// ---- process.cc: threads, fork, exit
// The arguments of clone(2), fork(2) or vfork(2).
struct CloneRequest {
  uint64_t flags, stack, parent_tid, child_tid, tls;
};
long do_clone(CallFrame* frame, ThreadArea* area);
void do_thread_exit(CallFrame* frame, ThreadArea* area);
void do_exit_group(CallFrame* frame, ThreadArea* area);
// The program is about to install a seccomp filter. From now on the shim makes no system call that the program does not
// make itself, because the filter might not allow it.
void process_seals(ThreadArea* area);
// The thread, which has the token, goes on as one that has just been created does: with its frame.
[[noreturn]] void thread_begins(ThreadArea* area);
void thread_arm(ThreadArea* area);  // sets %gs, the signal stack and Syscall User Dispatch for the calling thread
// Offsets in a thread's area: of the signals that held.cc keeps, and of the signal stack.
inline constexpr uint64_t kHeldAt = 0x3000;
inline constexpr uint64_t kSignalStackAt = 0x4000, kSignalStackSize = 0x10000;

// ---- areas.cc: the areas of the threads
// For a new thread, with this number or with the next one that is free. Null: there is no room.
ThreadArea* area_create(uint32_t number);
ThreadArea* area_create_next();
void area_not_used(ThreadArea* area);  // a thread could not be created for it
void area_ends(ThreadArea* area);      // its thread ends, and calls area_leave() soon
// Unmaps the stacks of the calling thread's area and ends the thread. No signal may be delivered on them any more.
[[noreturn]] void area_leave(ThreadArea* area, int code);
ThreadArea* living_thread(
    uint32_t tid);  // the area of the thread with this id, as the program knows it; null: none lives
void areas_forked(const ThreadArea* only);  // in a new process: no other area has a thread

// ---- part.cc: the recording of a running process goes on in a new trace, a part, which begins with a start image
inline bool part_wanted() { return __builtin_expect(trace_header()->wanted != format::kNoPart, 0); }
// So often, in milliseconds, a process that makes no calls looks whether one is wanted. For each process anew, as its
// timer is neither inherited by a fork nor kept by an exec. 0: never.
void part_look_every(uint32_t milliseconds);
void part_look_again();    // in a forked child
void part_look_no_more();  // the shim leaves the process
// Whether a thread that was interrupted shall begin one before it makes its call again. `poked`: ThreadArea::poked.
bool part_is_due(uint32_t poked);
bool part_pauses();  // whether it is not tried at the moment, after attempts in vain
// At the entry of a call: begins a part, unless something makes that impossible at the moment.
void part_begin(CallFrame* frame, ThreadArea* area);
// Whether the image lacks the mapping, since an event behind it makes it (shared_record_before).
bool part_maps_itself(const MapLine& map);
// The same for one of several recorded processes that share memory, all of which begin together. The thread is about to
// make a call for which the token can be lent, of which `hash` is the input hash.
bool part_is_called();
enum class PartTogether {
  begun,                 // or the process goes on unrecorded: the call is still to be made
  failed,                // nothing has happened
  failed_after_release,  // other processes have run, and the release of the call stands in the trace
};
PartTogether part_together(CallFrame* frame, ThreadArea* area, uint64_t hash);
void part_copies_differ();  // the program has asked that forked children do not get some memory (madvise(2))
void part_reap();           // now and then: an image may be complete, so that the process that has written it can go
// The calling thread was poked: notes what the image needs of it. `extended_state`: what the kernel has stored of it on
// the way into the handler; 0: it is in no handler.
void part_note_thread(ThreadArea* area, uint64_t extended_state);

// ---- vfork.cc: a vfork child runs in its parent's memory, as the thread that made it (ThreadArea::borrowed)
bool is_vfork(const CloneRequest& c);
long do_vfork(CallFrame* frame, ThreadArea* area, const CloneRequest& c);
[[noreturn]] void vfork_child(ThreadArea* area);
void end_vfork_child(CallFrame* frame, ThreadArea* area);
// At replay: whether the next event is the parent's return from vfork, so that the thread no longer acts as the child.
bool parent_is_due(const ThreadArea* area, const format::EventRecord* next);
[[noreturn]] void resume_parent(CallFrame* frame, ThreadArea* area);
int& vfork_socket(ThreadArea* area);    // the child's descriptor of the collector's socket
bool& vfork_traced(ThreadArea* area);   // the child has asked to be traced, so its program will not be recorded
uint8_t* vfork_node(ThreadArea* area);  // uuid of the node that the child becomes by execve(2)

// ---- own_program.cc
// The id of the process whose directory in /proc the path names, which is moved behind it; 0: it names none by number.
uint64_t process_in(const char*& path);
// Another name of /proc/self/exe in a process that the loader has started, as long as the object exists.
class OwnProgram {
 public:
  explicit OwnProgram(const char* path);
  ~OwnProgram();
  OwnProgram(const OwnProgram&) = delete;
  const char* path() const { return fd_ < 0 ? nullptr : link_.text; }  // null: the given path is no name of it

 private:
  int fd_ = -1;
  DescriptorLink link_{0};
};

// ---- exec.cc
void exec_forget();  // from now on, programs that this process executes are not recorded
// At the start: remembers the environment variables that a program executed later needs for being recorded.
void exec_remember(char** environment);
void do_exec(CallFrame* frame, ThreadArea* area);
// Makes the call without recording it. Returns only if it fails.
long exec_call(ThreadArea* area, long call, const uint64_t* arguments);

// ---- executable.cc
// A program that the calling process is about to execute by execve(2) or execveat(2), with arguments `a`, whose path
// can be read.
class Executable {
 public:
  Executable(long call, const uint64_t* a);
  ~Executable();
  Executable(const Executable&) = delete;
  // The descriptor of the statically linked program that runs in the end; -1: the kernel must start it.
  int fd() const { return fd_; }
  // The words that take the place of the first argument, because it is a script.
  unsigned leading() const { return count_; }
  const char* word(unsigned i) const { return words_[count_ - 1 - i]; }

 private:
  static constexpr unsigned kMostScripts = 5, kLongestLine = 255;
  int fd_ = -1;
  unsigned count_ = 0;
  const char* words_[2 * kMostScripts + 1];
  char lines_[kMostScripts][kLongestLine + 1];
};

// ---- loader.cc
extern char loaded_program[4096];  // the path of the program that the loader has started; empty: there is none
// Maps the program that kProgramVariable names. `stack`: where the number of arguments stands, as the kernel has left
// it. Fills in where the program begins. False: it cannot be mapped.
bool load_program(uint64_t* stack, CallFrame* start);
// Executes that program without recording it, or ends the process.
[[noreturn]] void start_without_shim(uint64_t* stack);

// ---- limits.cc: the limit of the address space, RLIMIT_AS
// getrlimit(2), setrlimit(2) and prlimit(2), without an event.
long local_limit(CallFrame* frame, ThreadArea* area);
void do_limit(CallFrame* frame, ThreadArea* area);
void limits_count(long bytes);  // the shim is about to map so many bytes, or has unmapped them (negative)
// The soft and hard limit that the program has set, for the program that it executes. False: it has set none.
bool limits_asked(uint64_t* asked);
void limits_before_exec();                      // raises the limit by what the next program's shim needs at its start
void limits_after_exec(const uint64_t* asked);  // the execve(2) has failed
void limits_inherit(const char* text);          // at the start: takes over limits from the value of kSocketVariable

// ---- leave.cc: the shim leaves a process that it cannot record
inline constexpr char kUsesGs[] = "it sets the base of %gs, where Friday keeps what belongs to a thread";
// Whether the call would filter the shim's system calls (seccomp(2)), or dispatch calls (Syscall User Dispatch,
// prctl(2)).
bool rules_calls(const CallFrame* frame);
bool filter_suits(
    const CallFrame* frame);  // filters.cc: whether the filter that it installs allows all of the shim's calls
// How the kernel would answer that call: 0, an error as a negative number, or kRulesAsBefore: success without a change.
inline constexpr long kRulesAsBefore = 1;
long rules_refused(const CallFrame* frame);
const char* reason_to_leave(
    const CallFrame* frame);  // why any other call makes recording impossible; null: it does not
bool can_leave(const ThreadArea* area);
bool could_leave(const ThreadArea* area);  // at replay: whether it could while it was recorded
bool is_forked();  // whether a recorded process has forked this one, which has not executed a program since
// For a process that the shim cannot leave: the error with which such a call fails instead. Also sends a notice.
long refuse_instead(const CallFrame* frame, const char* why);
bool is_fridays(uint64_t low, uint64_t size);  // whether some of these addresses are reserved for Friday
// Leaves the process. The program itself makes the call under way. The recording has ended.
[[noreturn]] void leave_at_call();
bool leave_is_due();  // for the handler of kPokeSignal: leave_at_call() has sent the signal
bool shim_has_left();
void leave_process(ThreadArea* area);  // the handler's last step: gives back everything except for signals

// ---- futex.cc: futexes with priority inheritance
bool futex_inherits(const uint64_t* arguments);
void do_futex_inheriting(CallFrame* frame, ThreadArea* area);
// Changes a futex word of the program from `*seen` to `value` in one step, as the kernel does: on standby the program's
// threads run beside this one, and other processes may share the memory. False: the word had another value, which is in
// `*seen` now. A replay runs nothing beside, so it stores the value.
bool futex_word_set(uint32_t* word, uint32_t* seen, uint32_t value);

// ---- robust.cc: robust mutexes whose owner ends (set_robust_list(2))
// The thread ends by a system call: releases its mutexes as the kernel would do.
void robust_thread_ends(ThreadArea* area);
// While recording, in a process that shares memory.
void robust_publish(ThreadArea* area);  // before others run: notes in TokenArea::held what the calling thread holds
enum class Look { turn_begins, turn_ends, at_event };
void robust_look(Look when);          // looks for mutexes that the kernel has released because their owner was killed
void robust_woken(uint64_t address);  // the same for one mutex, after a wait for it
void robust_attach(EventWriter& writer);           // adds what was found to the event
void robust_mapping_call(const CallFrame* frame);  // before a call that changes mappings
void robust_mapped();                              // after shared memory was mapped
void robust_forked(ThreadArea* area);              // in the child
void robust_member_leaves();                       // the process's recording has ended
// At replay: makes the changes of an event. `before`: those that must be made after the event before it.
void robust_apply(const format::EventRecord* event, bool before);

}  // namespace friday::shim
