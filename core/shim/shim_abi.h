// The binary interface of the shim: everything that it shares with code outside the recorded process.
//   - the control block, which the replay core (core/replay) reads and writes through the process's memory;
//   - the areas of the threads, with the registers that a parked thread shows;
//   - the schedule of a replayed group and the tokens of processes that share memory, both in shared memory;
//   - the messages between a recorded process and its collector (core/record).
// Freestanding: it needs no C library. docs/architecture.md, "The parts", names the other headers of the shim that may
// be included from outside.
//
// The start image of a recording contains the shim that recorded it, and this shim also replays it. So every structure
// here is a format on disk: kAbiVersion changes whenever a field does, and the core refuses all other versions.
//
// Unless a comment says otherwise, addresses are addresses in the recorded process, sizes are in bytes, and ticks are
// those of trace_format.h.
#pragma once

#include <stdint.h>

#include "core/shim/trace_format.h"

namespace friday::shim {

inline constexpr uint64_t kControlMagic = 0x4c4f52544e4f4346;  // "FCONTROL"
inline constexpr uint32_t kAbiVersion = 13;

// Fixed addresses, the same while recording and at replay. The kernel maps nothing there of its own accord.
inline constexpr uint64_t kStubAddress = 0x130000000000;  // replay: friday-stub, which rebuilds the start image
inline constexpr uint64_t kStubSize = 0x400000;
inline constexpr uint64_t kTokensAddress = 0x140000000000;  // recording: the TokenArea
inline constexpr uint64_t kAreasAddress = 0x150000000000;   // the ThreadArea of slot n is at area_address(n)
inline constexpr uint64_t kAreaStride = 0x100000;
inline constexpr uint64_t kAreaSize = 0x40000;  // the ThreadArea and the thread's two stacks in the shim
constexpr uint64_t area_address(uint64_t slot) { return kAreasAddress + slot * kAreaStride; }
inline constexpr uint32_t kMaxThreads = 65535;                 // that a process can have at a time
inline constexpr uint32_t kNumberedSlots = 1 << 16;            // entries of the array at Control::slots
inline constexpr uint64_t kScheduleAddress = 0x160000000000;   // replay: the SharedSchedule
inline constexpr uint64_t kVdsoAddress = 0x170000000000;       // recording: the kernel's own vdso is moved here
inline constexpr uint64_t kWorkspaceAddress = 0x180000000000;  // replay: scratch memory of a debugger, if it needs some
// The range that contains all of these and the trace. No memory of the program lies in it.
inline constexpr uint64_t kOwnLow = format::kWindowAddress, kOwnEnd = kWorkspaceAddress + (1ull << 40);
// Reserved beside each module: stubs at the start and, at replay, the debugger's jump pads in the last MiB.
inline constexpr uint64_t kPadSize = 2u << 20;

enum Mode : uint32_t {
  kModeOff = 0,  // no collector asked for a recording
  kModeRecord = 1,
  kModeReplay = 2,       // set by the core
  kModePassThrough = 3,  // the recording has ended; the program's calls go to the kernel
};

// The program's registers at a call. The shim saves them when it is entered and restores them when it leaves.
struct CallFrame {
  uint64_t rax;  // call number on entry, result on return
  uint64_t rdi, rsi, rdx, r10, r8, r9;
  uint64_t rbx, rbp, r12, r13, r14, r15;
  uint64_t rcx, r11;
  uint64_t rip;  // where the shim returns to: behind the call instruction, or in the site's stub
  uint64_t eflags;
  uint64_t rsp;
  uint64_t site;  // address of the system call instruction in the program's unpatched code
  uint64_t full;  // not 0: iretq restores every register (a signal handler, or registers that a debugger has set)
  CallFrame* previous;
};

// ThreadArea::poked
enum Poked : uint32_t {
  kPoked = 1,
  kPokedToLook = 2,   // to see whether a part is wanted (part_is_due)
  kMayBeginPart = 4,  // set by the thread itself: before its call is made again, a part may begin
};

// The state of one thread. %gs points to it; the core finds it by the thread's number.
struct ThreadArea {
  uint64_t stack_top;   // %gs:0   where the next entry into the shim begins its stack
  uint64_t saved_rsp;   // %gs:8   the program's rsp during an entry
  ThreadArea* self;     // %gs:16
  uint64_t trap_rip;    // %gs:24  where an entry without a call instruction returns to: after SIGSYS, or a yield
  CallFrame* frame;     // %gs:32  the innermost frame; null while the program's own code runs
  uint32_t number;      // thread number in the trace, from 0
  uint32_t tid;         // as the program sees it: the recorded thread id, also at replay
  uint32_t kernel_tid;  // as the kernel knows it
  uint32_t alive;       // not 0: the thread exists
  uint32_t go;          // futex; not 0: the thread may run
  uint32_t native;  // not 0: calls go to the kernel and are neither compared nor recorded (a debugger's function call)
  uint32_t sequence;     // events of this thread so far
  uint32_t in_call;      // replay: between the release of a call and its return
  uint64_t clear_tid;    // set_tid_address(2): the word to clear and wake when the thread ends; 0: none
  uint64_t robust_list;  // set_robust_list(2)
  uint64_t altstack[3];  // the program's signal stack (sigaltstack(2)): ss_sp, ss_flags, ss_size
  uint64_t signal_mask;  // the program's mask
  // The call under way, for a thread that takes the token meanwhile and writes the release event of this one.
  uint64_t call_hash, call_ticks;  // EventRecord::input_hash and entry_ticks
  uint32_t call_number;
  uint32_t call_logged;  // not 0: the release event is written
  // Ring of signals that have arrived and wait for the next call boundary. Only the shim's handlers append.
  volatile uint32_t pending_head, pending_tail;
  struct {
    uint32_t number;
    uint32_t pad;
    uint8_t info[128];  // siginfo_t
  } pending[16];
  uint64_t pauses;      // `pause` instructions that the thread has executed
  uint64_t yield_kind;  // format::YieldKind of the yield under way
  uint32_t poked;       // Poked: a signal of the shim's own has arrived. A call that it interrupted is made again
  uint32_t borrowed;    // not 0: a vfork child acts as this thread (vfork.cc)
  uint64_t call_mask;   // if `waited`: the signal mask that the interrupted call waited with
  uint32_t waited;
  uint32_t look_timer;  // the kernel's id + 1 of the timer that interrupts a computing thread (spin.cc); 0: none
  uint64_t look_delay;  // of that timer, in nanoseconds of processor time
  // State hashes (state.cc).
  uint32_t state_calls;  // calls since the last hash
  uint32_t state_due;    // not 0: the call under way has a hash, in `state`
  format::StatePart state;
  uint64_t wait_until[2];  // timespec: when a wait for a mutex between processes checks the owner again (futex.cc)
  uint64_t held_words;     // number of entries of TokenArea::held that are this thread's
  uint64_t probe;          // address of the Probe under way, 0: none. A fault then means EFAULT (runtime.h)
  uint32_t patient;        // not 0: the thread waits for the token by polling (token.cc)
  uint32_t stepped;        // not 0: the program's own trap flag has trapped inside the shim (signal_handlers.cc)
  // Loop sites (loop.cc). Each decrements `loops_left` and enters the shim when it reaches 0. The thread has passed
  // `loops_base` - `loops_left` sites so far.
  uint64_t loops_left, loops_base;
  uint64_t loops_next;    // sites to pass before the thread next checks for waiters; 0: it does not check
  uint64_t loops_looked;  // ticks of the last check
  uint32_t slot;          // the area's number. Once its thread has ended, another one gets the area
  uint32_t in_use;        // not 0: a thread has the area, or has ended and not left it yet
  uint32_t has_stacks;    // not 0: more than the first page of the area is mapped
  uint32_t next;      // in the queue of waiting threads (token.cc) or of unused areas (areas.cc): slot + 1; 0: the last
  uint32_t standing;  // not 0: the thread stands still, or waits for the token at a call (standby.cc)
  uint32_t reserved;
};

// Why a replayed process stopped at Control::trap_instruction, in Control::trap_reason.
enum TrapReason : uint32_t {
  kTrapNone = 0,
  kTrapDiverged = 1,        // see Control::divergence
  kTrapEndOfTrace = 2,      // the program goes on after its last recorded event
  kTrapExit = 3,            // exit_group(2) was replayed; `trap_detail` is its argument
  kTrapStopEvent = 4,       // Control::stop_at_event is reached
  kTrapForkChild = 6,       // a forked child waits for its trace to be mapped
  kTrapFailed = 7,          // the shim cannot go on: `text` says what failed, `trap_detail` is a detail of it
  kTrapStarted = 8,         // resumed from the start image, about to run the program
  kTrapMappingBegins = 10,  // a call is about to change the mappings between `mapping_low` and `mapping_high`, where
                            // something is watched
  kTrapMappingDone = 11,    // that call has changed them
  kTrapSpin = 12,           // the next event is a yield in a pure spin: the core finds its point (core/replay/spin.cc)
  kTrapObject = 13,         // the shim needs the file of shared object `object`; the core writes its name to `shared`
  kTrapShared = 14,  // shared memory was mapped or unmapped (`trap_detail` 1), or a call changed its contents (0)
  kTrapDies = 15,    // the program's stack has no room for the frame of a signal handler: the thread dies of the signal
                     // `trap_detail`, at the registers of its CallFrame
};

enum DivergenceKind : uint32_t {
  kDivergedType = 1,      // another kind of event
  kDivergedCall = 2,      // another system call
  kDivergedThread = 3,    // another thread
  kDivergedArgument = 4,  // argument number `which`, from 0, differs
  kDivergedInput = 5,     // the memory that the call reads differs
  kDivergedNative = 6,    // a mapping call, which is made at replay too, has another result
  kDivergedAbsent = 8,    // the next event is of a thread that does not exist
  kDivergedState = 9,     // the state hash of a call differs; `which` is a StateDifference
};

enum StateDifference : uint32_t { kStateSame = 0, kStateRegisters = 1, kStateStack = 2, kStateMemory = 3 };

// How the program differs from its recording. `expected` and `actual` are the two values that `kind` is about.
struct DivergenceReport {
  uint32_t kind, which;
  uint64_t event;
  uint32_t expected_type, actual_type;
  uint32_t expected_call, actual_call;
  uint32_t expected_thread, actual_thread;
  uint64_t expected, actual;
};

// A patched site. The core uses these to show the original bytes and to translate addresses.
struct Patch {
  uint64_t start;    // first byte that was replaced
  uint64_t syscall;  // address of the system call instruction; kSiteLoop: same as `start`
  uint64_t stub;     // address of the stub
  uint64_t resume;   // where in the stub the displaced instructions after the call are, 0 if there are none; kSiteLoop:
                     // where the displaced instructions are, 0 if is_call()
  uint8_t length;    // bytes replaced
  uint8_t kind;      // SiteKind
  uint8_t original[14];
  // Whether the site is a call of a function, which has become a call of the stub. It displaces no instruction.
  constexpr bool is_call() const { return original[0] == 0xe8; }
};

// There is one in each process; the start image says where (format::ImageRecord::control).
struct Control {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t mode;                  // Mode
  uint64_t text_low, text_high;   // the shim's code, which is exempt from Syscall User Dispatch
  uint64_t syscall_instruction;   // address of a `syscall; ret` in the shim's code, for calls that the core injects
  uint64_t trap_instruction;      // address of the int3 that raises traps (TrapReason); rip is then one byte behind it
  uint64_t area_count;            // thread areas ever used: those of the slots below
  uint64_t patches, patch_count;  // address and length of an array of Patch
  uint64_t yield_entry;  // where the core sends a thread that must yield; ThreadArea::trap_rip says where it goes on
  uint64_t restorer;     // address of the code to which the program's signal handlers return: rt_sigreturn(2)
  // Address of an array of kNumberedSlots uint16_t: at a thread's number, modulo its length, is the slot of the
  // thread's area. That area may be another thread's, if the thread has ended.
  uint64_t slots;
  // Set by the core before the first instruction of a replay.
  uint64_t trace_end;      // bytes of the trace, which is mapped at format::kWindowAddress
  uint64_t schedule;       // address of this node's NodeSchedule; 0: the node waits for no other
  uint64_t node_slot;      // index into SharedSchedule::progress
  uint64_t stop_at_event;  // stop before the event with this index (kTrapStopEvent); ~0: never
  uint32_t cut;            // not 0: the recorded process was killed between two events, so nothing runs after the last
  uint32_t tell_shared;    // not 0: raise kTrapShared also when a call changes the contents of shared memory
  uint32_t restoring;      // not 0: payload that the recording leaves out is made again (NodeSchedule::sent, received)
  uint32_t
      stop_in_handlers;  // not 0: kTrapStopEvent is also raised where a signal's handler is entered, before its code
  char files[1024];      // directory of the recording's file copies
  uint64_t object;       // kTrapObject: number of the shared object that the shim needs
  char shared[64];       // kTrapObject: path of that object's file, written by the core
  // The state of the replay.
  uint64_t cursor;       // offset of the next record in the trace
  uint64_t event;        // number of events done: the index of the next one
  uint32_t turn;         // number of the thread that may run
  uint32_t gate;         // index of the next of NodeSchedule::gates
  uint32_t post;         // index of the next of NodeSchedule::posts
  uint32_t sent;         // index of the next of NodeSchedule::sent
  uint32_t received;     // index of the next of NodeSchedule::received
  uint32_t trap_reason;  // TrapReason
  uint32_t trap_thread;  // number of the thread that trapped
  int32_t trap_detail;
  DivergenceReport divergence;
  char text[128];
  uint64_t watched_low, watched_high;  // set by the core: all watched pages lie in this range, empty if there are none
  uint64_t mapping_low, mapping_high;
  uint64_t program_brk;  // the end of the heap as the program sees it (brk(2))
  uint64_t message[16];  // replay: a msghdr and its buffers, by which a thread receives a descriptor from the core
};

// ---- The schedule of a replayed group, in memory that the core shares with all nodes

// How far a node is.
struct alignas(64) Progress {
  uint64_t done;     // number of events done; published at this node's posts
  uint32_t futex;    // incremented when `done` changes
  uint32_t waiters;  // threads that sleep on `futex`
};

// Before its event `event` a node waits until the node of slot `slot` has done `done` events.
struct Gate {
  uint64_t event;
  uint64_t done;
  uint32_t slot;
  uint32_t reserved;
};

// At the entry of its event `event` a node copies bytes that its call sends to `place`, from where their receiver gets
// them: `length` bytes, from byte `from` of the call's message number `message` on.
struct SentPiece {
  uint64_t event;
  uint64_t from, length;
  uint64_t place;  // an address behind the arrays of the schedule
  uint32_t message, reserved;
};

// With its event `event` a node gets `length` bytes of a message at `address`. The trace has zeros for them; they are
// at `place`.
struct ReceivedPiece {
  uint64_t event;
  uint64_t address, length;
  uint64_t place;
};

// The arrays are sorted by event. An entry with event ~0 ends each of them.
struct NodeSchedule {
  uint64_t gates;           // address of an array of Gate
  uint64_t posts;           // address of an array of uint64_t: the events before which the node publishes its progress
  uint64_t sent, received;  // addresses of arrays of SentPiece and ReceivedPiece, used if Control::restoring is set
  // Events whose calls read memory that depends on payload which nobody has any more (core/infer): other contents than
  // the recorded ones are no divergence. `unchecked` is the address of an array of their numbers, which rise.
  uint64_t unchecked, unchecked_count;
};

inline constexpr uint32_t kMaxNodes = 4096;
struct SharedSchedule {
  uint64_t size;  // of this memory, with the arrays that follow
  uint64_t node_count;
  Progress progress[kMaxNodes];
  NodeSchedule nodes[kMaxNodes];
};

// ---- The tokens of processes that share writable memory (token_group.cc), in a file that all recorded processes map.
// Indices start at 1; 0 means none. Entries are never reused unless they say so: the file lives only as long as the
// collector.

// A process that shares memory.
struct TokenMember {
  uint32_t go;             // futex; not 0: the group's token was handed to this member
  uint32_t pid;            // as the process sees it
  uint32_t tid;            // of the thread that ran last; 0 while the process executes another program
  uint32_t next;           // the next member in its group's queue
  uint64_t pid_namespace;  // inode of /proc/PID/ns/pid; pids of other namespaces cannot be compared
  uint32_t patient;        // not 0: it waits by polling, and TokenGroup::patient counts it
  uint32_t reserved;
};

// A token group: processes of which one runs at a time.
struct TokenGroup {
  uint32_t guard;        // spin lock of the queue: the member that holds it
  uint32_t state;        // the member that has the token or had it last, with kTokenHeld or kTokenLent
  uint32_t forward;      // the group that this one has become part of
  uint32_t first, last;  // queue of waiting members
  uint32_t waiting;      // number of members in the queue
  uint64_t turn;         // number of the current turn
  uint64_t since;        // ticks at which it began
  uint32_t patient;      // waiting members that poll, and need not be woken
  uint32_t processor;    // on which the holder was seen last; ~0: it has not run yet
  uint32_t reserved[4];
};

// TokenGroup::state: kTokenWho is the member's number. Any member may take a token that is lent.
inline constexpr uint32_t kTokenHeld = 1u << 30, kTokenLent = 2u << 30, kTokenWho = kTokenHeld - 1;

// A file or a System V segment that several processes can map.
struct SharedObject {
  uint64_t device, inode;  // kSegmentDevice and the segment's id for a System V segment
  uint32_t group;
  uint32_t cut;    // CutReply::cut of the processes that had it mapped before; 0: it was mapped while recorded
  uint32_t shown;  // not 0: an event says that the object is new
  uint32_t reserved;
  uint64_t low, high;  // of its contents at that cut, what one of them has written to its trace
};
inline constexpr uint64_t kSegmentDevice = ~0ull;

// A robust mutex (set_robust_list(2)) that a thread held when it last let others run. The entry is reused.
struct HeldWord {
  uint32_t member;                 // the thread's process; 0: the entry is free
  uint32_t owner;                  // the thread id in the mutex's futex word; 0: the entry is not complete yet
  uint64_t device, inode, offset;  // where the word is in the mapped file, as /proc/PID/maps names it
  uint64_t address;                // of the word in that process
};

// A process in which a thread has kept the token (token.cc) for long while others wait for it. The entry is reused.
struct KeptThread {
  uint32_t pid, tid;  // as the process sees them; `pid` 0: the entry is free
  uint64_t pid_namespace;
  uint32_t looks;  // how often in succession, about once a millisecond, a waiter has seen the same holder
  uint32_t reserved;
};

// An end of a connection, or a pipe, through which messages are held back (shaping.cc), or a socket of datagrams. The
// entry is not reused.
struct ShapedEnd {
  uint64_t inode;     // of the socket or the pipe (stat(2)); 0: the entry is free
  uint64_t sent;      // bytes that the programs believe sent
  uint64_t received;  // bytes that they have received; of datagrams their number
  uint64_t handled;   // how many of these count as handled (HandledWhen)
  // Not 0: the collector is told (kHandled) when `received`, or `handled`, is as large; then it becomes 0.
  uint64_t wanted_received, wanted_handled;
  uint32_t taken;  // messages, or pieces of them, that were given to the collector to send
  // futex: how many of these the collector has sent. Until it has sent all, it is given everything that follows, too.
  uint32_t passed;
  uint64_t queued;  // bytes of those that it has not sent yet
};
// Bytes by which a message that may have to be held back is recognised: they stand in it.
struct HoldWord {
  uint32_t length;  // 0: any message
  char bytes[60];
};
// A datagram that was sent and whose receipt the shim shall note. The network may lose and reorder datagrams, so it is
// recognised by its contents, and among equal ones by their order.
struct AwaitedDatagram {
  uint64_t inode;     // of the socket that will receive it; 0: the entry is free
  uint64_t order;     // rises from entry to entry; of equal datagrams the one with the lowest counts as received first
  uint64_t received;  // ShapedEnd::received when it had been received; 0: it was not received yet
  uint32_t length;
  uint32_t reserved;
  char bytes[64];  // the first ones
};
enum HandledWhen : uint32_t {
  kHandledAtReceipt = 1,
  // When the thread that has received it sends on the connection, or next waits for this connection or for several
  // descriptors.
  kHandledAtWait = 2,
  kHandledAtAnswer = 3,  // when somebody sends on the connection
};
inline constexpr uint32_t kMaxShapedEnds = 1 << 13, kMaxHoldWords = 64, kMaxAwaited = 256;
struct ShapeArea {
  uint32_t on;            // not 0: messages with one of the words are given to the collector
  uint32_t handled_when;  // HandledWhen; 0: no messages are, or were, to be held back in this recording
  uint32_t word_count;
  uint32_t full;  // not 0: there were more ends than entries
  HoldWord word[kMaxHoldWords];
  uint32_t awaited_count;  // entries of `awaited` in use
  uint32_t reserved;
  AwaitedDatagram awaited[kMaxAwaited];
  ShapedEnd end[kMaxShapedEnds];
};
// The entry of an inode, which is made if there is none; null: all entries are in use.
inline ShapedEnd* shaped_end(ShapeArea& area, uint64_t inode) {
  uint32_t at = static_cast<uint32_t>(inode * 0x9e3779b97f4a7c15 >> 40) % kMaxShapedEnds;
  for (uint32_t tries = 0; tries < kMaxShapedEnds; tries++, at = (at + 1) % kMaxShapedEnds) {
    uint64_t known = 0;
    if (__atomic_compare_exchange_n(&area.end[at].inode, &known, inode, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
        known == inode)
      return &area.end[at];
  }
  return nullptr;
}

inline constexpr uint32_t kMaxKept = 1 << 8;
inline constexpr uint32_t kMaxMembers = 1 << 20, kMaxGroups = 1 << 16, kMaxObjects = 1 << 16, kMaxHeldWords = 1 << 10;
struct TokenArea {
  uint64_t session;                   // random; FileHeader::sharing of the traces
  uint32_t guard;                     // spin lock of the numbers below and of joining groups: the member that holds it
  uint32_t members, groups, objects;  // entries in use
  uint32_t files;                     // objects that are files
  uint32_t held_words;                // entries of `held` in use
  uint32_t held_top;                  // one more than the highest index of `held` that was ever in use
  uint32_t reserved;
  KeptThread kept[kMaxKept];
  HeldWord held[kMaxHeldWords];
  TokenGroup group[kMaxGroups];
  SharedObject object[kMaxObjects];
  TokenMember member[kMaxMembers];
  ShapeArea shapes;
};

// ---- The messages between a recorded process and the collector: SOCK_SEQPACKET, unix(7). A process has one request
// under way at a time.

inline constexpr int kSocketFd = 1000;  // the descriptor's preferred number; FRIDAY_SOCKET says which one it is
inline constexpr char kSocketVariable[] = "FRIDAY_SOCKET";

enum RequestKind : uint32_t {
  kHello = 1,   // first message of a process. Reply: HelloReply, with the descriptors of its trace and of the TokenArea
  kModule = 2,  // copy a mapped file, whose descriptor may be attached, and look for sites in it. Reply: ModuleReply
  kRoom = 3,    // make room in the trace. No reply; FileHeader::room changes
  kFork = 4,    // the process will fork. Reply: ForkReply, with the descriptors of the child's trace and socket
  kForked = 5,  // from the forked child: its pid, in `detail`. No reply
  kEnding = 6,  // an EndRecord was written. No reply
  kSpawn = 7,   // a vfork child will execute the program `text`. Reply: ForkReply, with the descriptor of its socket
  kExecutes = 8,     // the process will execute the program `text`; its event is number `events` - 1. No reply
  kNotExecuted = 9,  // from a vfork child, on its own socket: its execve(2) failed, so it becomes no node. No reply
  kNotice = 10,      // `text` is something that readers of the recording should know. No reply
  kReached = 11,     // the process has written into the memory of process `detail`. No reply
  // The process is about to go on in a new trace, with `events` bytes for its image. Reply: ForkReply, with the
  // descriptor of that trace.
  kPart = 12,
  // After kPart: the process goes on in the new trace, and the trace before is complete. No reply. A descriptor may be
  // attached; it becomes readable when the image is written, or when it is certain that it never will be.
  kParted = 13,
  // The process will soon want a part whose image may have `events` bytes. No reply; FileHeader::image_room changes
  // when there is room for them.
  kImageRoom = 14,
  // The process shall go on in a new trace, and has mapped memory that others may share. All processes that share
  // memory must do so together, so this one waits until FileHeader::wanted is kPartTogether or kNothingTogether. No
  // reply.
  kShares = 15,
  // After kPartTogether or kNothingTogether: all threads of the process stand still. Reply: CutReply, when this holds
  // for all processes that share memory, or one of them cannot stand still.
  kHalted = 16,
  // A message, or a piece of one, that the program believes sent; its bytes follow the request, and the descriptor is
  // attached. The collector sends it, now or later (shaping.cc). No reply; ShapedEnd::passed changes.
  kToSend = 17,
  // ShapedEnd::received or ::handled of the end `inode` is what was wanted, or it has received a datagram that is
  // awaited. No reply
  kHandled = 18,
  // The program is about to do something on the end `inode` that cannot be held back, while messages before it are. So
  // the collector shall send all of these now. `text` says what the program does. No reply; ShapedEnd::passed changes.
  kLetGo = 19,
};

enum class PartFor : int32_t { recording, standby, schedule };  // what another trace of a process is for

inline constexpr uint32_t kMostHeldBytes = 60000;  // in one kToSend
// Request::reason of kToSend.
enum HeldFlag : uint32_t {
  kFirstPiece = 1,
  kLastPiece = 2,
  kShutsDown = 4,  // no bytes: shutdown(2) with SHUT_WR
  kDatagram = 8,   // `text` has the address that it is sent to, `detail` bytes long; 0: that of the connection
};

inline constexpr char kNoAddresses[] = "no room at the shim's addresses";  // Request::text of kEnding

struct Request {
  uint32_t kind;        // RequestKind
  uint32_t pid;         // of the sender
  uint32_t executable;  // kModule: not 0: sites are wanted
  uint32_t reason;      // kEnding: EndReason; kSpawn, kExecutes: effective user id
  int32_t detail;       // kEnding: EndRecord::detail; kForked, kReached: a pid; kSpawn, kExecutes: not 0: the real and
                        // the effective user or group differ; kPart: PartFor
  uint32_t mapped_writable;  // kModule: not 0: a recorded process has the file mapped so
  uint64_t inode;            // kModule: of the file; kToSend, kHandled, kLetGo: of the end
  uint64_t events;           // kExecutes: number of events in the sender's trace; kPart, kImageRoom: bytes; kToSend:
                             // ShapedEnd::sent before it
  uint64_t length;           // kToSend: of the whole message
  char text[256];            // kModule, kSpawn, kExecutes, kHello if loader.cc has started it: a path; kToSend: an
                             // address (HeldFlag); else a text
};

struct HelloReply {
  uint32_t clock_kind;   // format::ClockKind
  uint32_t flags;        // HelloFlag
  uint32_t state_every;  // every how many calls a thread's state is hashed; 0: never
  // The process's output is kept (format::kOutput) up to so many MiB and half of what its trace has; 0: not at all.
  uint32_t output_mib;
  // How often a process looks whether a part is wanted although it makes no calls, in milliseconds; 0: never.
  uint32_t look_for_part_ms;
  uint32_t reserved;
  uint64_t chaos_key;  // ChaosPlace::key of the process; 0: chaos is off
  // Offsets of functions in the vdso (vdso(7)); 0: it has no such function.
  uint64_t vdso_clock_gettime;
  uint64_t vdso_gettimeofday, vdso_time, vdso_getcpu, vdso_clock_getres, vdso_getrandom;
  // format::ImageRecord::cpuid. The collector asks the processor once, because a hypervisor intercepts each cpuid.
  uint32_t cpuid[8][4];
};
enum HelloFlag : uint32_t {
  kCatchAllOnly = 1,  // patch no call site
  kVdsoCallable = 2,  // the vdso's clock functions use general registers only, so that the shim may call them
};

// What is patched at a site, and how.
enum SiteKind : uint8_t {
  kSiteBefore = 1,  // the `length` bytes before a system call instruction, whose own bytes stay
  kSiteAfter = 2,   // a system call instruction and the bytes behind it, `length` bytes in all
  kSiteRdtsc = 3,
  kSiteRdtscp = 4,
  kSiteRdrand = 5,
  kSiteRdseed = 6,  // kSiteRdrand, kSiteRdseed: `detail` is the register's number and the operand's size
  kSiteXbegin = 7,  // a transaction, which never starts
  kSitePause = 8,
  kSiteXsave = 9,  // `detail` 1: the compacted form (xsavec)
  kSiteCpuid = 10,
  kSiteLoop = 11,  // instructions of a loop that may wait, which move to the stub; `detail`: the offset in them of a
                   // displacement relative to rip, 0: none. Or a direct call in such a loop, which calls the stub
  kSiteRdpid = 12,
  kSiteLsl = 13,  // `detail` is not used: the instruction names both registers
  kSiteXgetbv = 14,
  kSiteGsBase = 15,  // `detail` 0: rdgsbase; 1: wrgsbase, or a load of %gs, which sets the base too
};
// Whether the instruction is replaced by an ud2, whose SIGILL has the shim carry the instruction out.
constexpr bool is_planted(unsigned kind) { return kind >= kSiteRdtsc && kind != kSiteLoop; }

struct Site {
  uint64_t offset : 48;  // of the first replaced byte, in the file
  uint64_t kind : 4;     // SiteKind
  uint64_t length : 4;
  uint64_t detail : 8;
};
static_assert(sizeof(Site) == 8);

inline constexpr uint32_t kMaxSites = 20000;
inline constexpr uint32_t kMaxLoops = 2000;  // of kSiteLoop among them
struct ModuleReply {
  uint8_t file[16];  // XXH3-128, the name of the copy in files/; zero: no copy could be made
  uint64_t file_size;
  uint32_t build_id_size;
  uint8_t build_id[20];
  uint32_t site_count;
  uint32_t settled;  // not 0: the contents stay the same as long as size, modification and status change time do
  Site sites[];
};

// A shared object that is mapped by processes which begin new traces together.
struct ObjectBefore {
  uint64_t device, inode;  // as /proc/PID/maps shows them
  uint64_t file_device;    // as stat(2) shows it
  uint64_t size;           // of the object in bytes
  uint32_t is_segment;     // not 0: a System V segment, whose id is `inode`
  uint32_t is_nameless;    // not 0: it has no path, and /proc/PID/maps shows a name that the kernel made up
  uint32_t in_memory;      // not 0: pages of it that are not resident (mincore(2)) were never written to
  uint32_t reserved;
};
inline constexpr uint32_t kMostObjectsBefore = 1024;
struct CutReply {
  uint32_t ok;   // 0: not all of the processes stand still, so this one must go on as before
  uint32_t cut;  // number of the cut, from 1: the same for all processes that begin new traces together
  uint32_t count, reserved;
  ObjectBefore objects[kMostObjectsBefore];  // `count` of them are sent
};

struct ForkReply {
  uint32_t ok;
  uint8_t node_uuid[16];
  uint64_t chaos_key;  // of the child
};

}  // namespace friday::shim
