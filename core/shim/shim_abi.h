// All that the shim and the outside world share: the control block in the recorded process that the replay core reads
// and writes, the registers a parked thread shows, the shared schedule of a replayed group, and the messages between a
// recorded process and its collector. Freestanding; no other header of the shim may be included from outside.
//
// The shim that recorded a program is the one that replays it (it is part of the start image), so everything here is a
// format on disk: kAbiVersion changes whenever a field does, and the core refuses versions it does not know.
#pragma once

#include <stdint.h>

#include "core/shim/trace_format.h"

namespace friday::shim {

inline constexpr uint64_t kControlMagic = 0x4c4f52544e4f4346;  // "FCONTROL"
inline constexpr uint32_t kAbiVersion = 11;

// Fixed places in the address space, the same at record and replay, far from where the kernel puts anything by itself.
inline constexpr uint64_t kStubAddress = 0x130000000000;  // replay only: the stub that rebuilds the image
inline constexpr uint64_t kStubSize = 0x400000;
inline constexpr uint64_t kTokensAddress = 0x140000000000;  // record only: TokenArea
inline constexpr uint64_t kAreasAddress = 0x150000000000;   // ThreadArea n at kAreasAddress + n * kAreaStride
inline constexpr uint64_t kAreaStride = 0x100000;
inline constexpr uint64_t kAreaSize = 0x40000;                // area, signal stack, call stack
inline constexpr uint32_t kMaxThreads = 65535;                // in a process's life; numbers are not used again
inline constexpr uint64_t kScheduleAddress = 0x160000000000;  // replay only: SharedSchedule
inline constexpr uint64_t kVdsoAddress = 0x170000000000;      // record only: where the kernel's own vdso is moved
inline constexpr uint64_t kWorkspaceAddress =
    0x180000000000;  // replay only: a debugger's scratch memory, mapped when first used
inline constexpr uint64_t kOwnLow = format::kWindowAddress,
                          kOwnEnd =
                              kWorkspaceAddress + (1ull << 40);  // of all these: no memory of the program is there
inline constexpr uint64_t kPadSize =
    2u << 20;  // reserved beside each module for stubs and, in its last MiB at replay, jump pads

enum Mode : uint32_t { kModeOff = 0, kModeRecord = 1, kModeReplay = 2, kModePassThrough = 3 };

// The program's registers at a call, as the shim saved them on entry and will restore them on return.
struct CallFrame {
  uint64_t rax;  // call number on entry, result on return
  uint64_t rdi, rsi, rdx, r10, r8, r9;
  uint64_t rbx, rbp, r12, r13, r14, r15;
  uint64_t rcx, r11;
  uint64_t rip;  // where the shim returns to: behind the call, or in its stub
  uint64_t eflags;
  uint64_t rsp;
  uint64_t site;  // address of the syscall instruction, as the program's code has it
  uint64_t full;  // not 0: restore every register through iretq (signals, registers set by a debugger)
  CallFrame* previous;
};

// One thread; %gs points at it. The core finds it at kAreasAddress.
struct ThreadArea {
  uint64_t stack_top;  // %gs:0   where the next entry starts its stack
  uint64_t saved_rsp;  // %gs:8
  ThreadArea* self;    // %gs:16
  uint64_t trap_rip;   // %gs:24  return address of a call that came through SIGSYS
  CallFrame* frame;    // %gs:32  topmost frame; null while the program's own code runs
  uint32_t number;     // thread number
  uint32_t tid;        // as the program sees it (recorded tid, also at replay)
  uint32_t kernel_tid;
  uint32_t alive;
  uint32_t go;         // futex: the thread may run
  uint32_t native;     // not 0: calls are made natively and not logged (a debugger's function call)
  uint32_t sequence;   // events of this thread so far
  uint32_t in_call;    // between release and return
  uint64_t clear_tid;  // address to zero and wake at exit
  uint64_t robust_list;
  uint64_t altstack[3];  // the program's own (virtual) signal stack
  uint64_t signal_mask;  // the program's
  // The call being made, for whoever logs its release.
  uint64_t call_hash, call_ticks;
  uint32_t call_number, call_logged;
  // Signals that arrived and wait for delivery at a call boundary.
  volatile uint32_t pending_head, pending_tail;
  struct {
    uint32_t number;
    uint32_t pad;
    uint8_t info[128];
  } pending[16];
  uint64_t pauses;      // `pause` instructions so far
  uint64_t yield_kind;  // format::YieldKind of the yield under way
  uint32_t poked;       // a waiter's signal has interrupted this thread
  uint32_t borrowed;    // not 0: a child by vfork acts as this thread
  uint64_t call_mask;   // the mask that the call just interrupted waited with, while `waited` says so
  uint32_t waited;
  uint32_t look_timer;  // 0: none; else the kernel's number + 1 of the timer that has this thread looked at (spin.cc)
  uint64_t look_delay;  // nanoseconds of processor time until the next look
  // The state hash of the call being made, if one is due (state.cc).
  uint32_t state_calls, state_due;
  format::StatePart state;
  uint64_t wait_until[2];  // when a wait for a mutex between processes looks again (futex.cc)
  uint64_t held_words;     // of TokenArea::held, those of this thread
  uint64_t probe;  // not 0: the shim reads what the program points at, and a fault there is expected (runtime.h Probe)
  uint32_t patient;  // it waits for the token and runs (token.cc)
  uint32_t stepped;  // the program single-steps itself (trap flag), and stepped into the shim (signals.cc)
  // Loop sites (loop.cc): each takes one from `loops_left` and stops the thread at 0. Those passed so far: `loops_base`
  // - `loops_left`.
  uint64_t loops_left, loops_base;
  uint64_t loops_next,
      loops_looked;  // how many it passes until it looks whether somebody waits, 0: it does not; when it looked last
};

enum TrapReason : uint32_t {
  kTrapNone = 0,
  kTrapDiverged = 1,    // Control::divergence says how
  kTrapEndOfTrace = 2,  // the next event is past the recording
  kTrapExit = 3,        // exit_group was replayed; `detail` is the code
  kTrapStopEvent = 4,   // Control::stop_at_event reached
  kTrapForkChild = 6,   // a forked child waits for its trace to be mapped
  kTrapFailed = 7,      // replay cannot go on (mapping failed, ...): Control::text
  kTrapStarted = 8,     // resumed from the start image; about to run the program
  kTrapSpin =
      12,  // the next event is a yield in a loop without a call: the core finds the point (Control::yield_entry)
  kTrapObject = 13,  // Control::object needs its file
  kTrapShared = 14,  // something shared is mapped now (detail 1), or a call has changed contents of such a thing (0)
  kTrapMappingBegins =
      10,  // a call is about to change mappings in Control::mapping_low .. mapping_high, where something is watched
  kTrapMappingDone = 11,  // and has done so
  kTrapDies = 15,  // the program has no memory for the frame of its handler: the thread dies of the signal `detail`,
                   // where its CallFrame stands
};

enum DivergenceKind : uint32_t {
  kDivergedType = 1,      // another kind of event
  kDivergedCall = 2,      // another system call
  kDivergedThread = 3,    // another thread
  kDivergedArgument = 4,  // argument `which` differs
  kDivergedInput = 5,     // memory read by the call differs
  kDivergedNative = 6,    // a mapping call gave another result
  kDivergedAbsent = 8,    // the next event is of a thread that does not exist
  kDivergedState = 9,     // the state hash of a call; `which`: StateDifference
};

enum StateDifference : uint32_t { kStateSame = 0, kStateRegisters = 1, kStateStack = 2, kStateMemory = 3 };

struct DivergenceReport {
  uint32_t kind, which;
  uint64_t event;
  uint32_t expected_type, actual_type;
  uint32_t expected_call, actual_call;
  uint32_t expected_thread, actual_thread;
  uint64_t expected, actual;
};

// A patched site, for whoever must show the original bytes or translate an address.
struct Patch {
  uint64_t start;         // first byte replaced
  uint64_t syscall;       // address of the syscall instruction; kSiteLoop: `start`
  uint64_t stub, resume;  // stub code, and where in it the instructions after the call stand (0: behind the call
                          // itself); kSiteLoop: the moved ones
  uint8_t length;         // bytes replaced
  uint8_t kind;           // SiteKind
  uint8_t original[14];
};

struct Control {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t mode;                  // Mode; set to kModeReplay by the core
  uint64_t text_low, text_high;   // the shim's code, exempt from Syscall User Dispatch
  uint64_t syscall_instruction;   // a `syscall; ret` inside it, for injected calls
  uint64_t trap_instruction;      // the int3 of kTrap*; reported rip is one past
  uint64_t thread_count;          // areas ever used
  uint64_t patches, patch_count;  // array of Patch
  uint64_t yield_entry;  // where the core sends a thread that shall yield; ThreadArea::trap_rip is where it goes on
  uint64_t restorer;     // address of the rt_sigreturn sequence handlers return to
  // Set by the core before the first instruction of a replay.
  uint64_t trace_end;      // bytes of trace mapped at format::kWindowAddress
  uint64_t schedule;       // address of this node's NodeSchedule, 0: free
  uint64_t node_slot;      // index into SharedSchedule::progress
  uint64_t stop_at_event;  // kTrapStopEvent before this event; ~0: never
  uint32_t cut;          // the process was killed on the way to its next event: nothing is executed behind the last one
  uint32_t tell_shared;  // kTrapShared at calls that change contents too
  char files[1024];      // directory of the recording's file copies
  uint64_t object;       // of shared memory, by its number: whose file `shared` names
  char shared[64];       // set by the core, kTrapObject: what all nodes of this TokenArea map that object from
  // State of the replay.
  uint64_t cursor;  // offset in the trace of the next record
  uint64_t event;   // events done
  uint32_t turn;    // thread that may run
  uint32_t gate;    // next entry of NodeSchedule's gates
  uint32_t post;    // and of its posts
  uint32_t trap_reason;
  uint32_t trap_thread;
  int32_t trap_detail;
  DivergenceReport divergence;
  char text[128];
  uint64_t watched_low,
      watched_high;  // set by the core: between them lie all watched pages; empty when nothing is watched
  uint64_t mapping_low, mapping_high;
  uint64_t program_brk;
  uint64_t message[16];  // replay: through it a thread receives a descriptor from the core
};

// ---- The schedule of a replayed group, in memory shared by the core and all nodes

// A node publishes how many events it has finished: it stands at the entry of event `done`.
struct alignas(64) Progress {
  uint64_t done;
  uint32_t futex;
  uint32_t waiters;
};

// Before event `event`, wait until node slot `slot` has done `done` events.
struct Gate {
  uint64_t event;
  uint64_t done;
  uint32_t slot;
  uint32_t reserved;
};

// Arrays in address order of event; a sentinel with event ~0 ends each.
struct NodeSchedule {
  uint64_t gates;  // address of Gate[]
  uint64_t posts;  // address of uint64_t[]: publish progress on arrival at these events
};

inline constexpr uint32_t kMaxNodes = 4096;
struct SharedSchedule {
  uint64_t size;
  uint64_t node_count;
  Progress progress[kMaxNodes];
  NodeSchedule nodes[kMaxNodes];
};

// ---- Processes that share writable memory (token_group.cc), in a file of the recording that all of them map. Indices
// are from 1; 0 is none. Nothing is ever given back: the file lives as long as a collector of the recording does.

// A process that shares memory.
struct TokenMember {
  uint32_t go;             // futex: the group's token was handed to it
  uint32_t pid, tid;       // tid: of the thread that ran last; 0: it executes another program
  uint32_t next;           // in its group's queue
  uint64_t pid_namespace;  // inode; pids mean nothing outside
  uint32_t patient;        // it is one of the group's
  uint32_t reserved;
};

// Processes of which one runs at a time.
struct TokenGroup {
  uint32_t guard;        // the member that changes the queue
  uint32_t state;        // a member, and whether it holds or has lent the token
  uint32_t forward;      // the group this one was joined with
  uint32_t first, last;  // queue of members that wait
  uint32_t waiting;      // members in it
  uint64_t turn;         // times the token has changed hands
  uint64_t since;        // ticks of the last time
  uint32_t patient;      // those of the waiting that run, and need not be woken
  uint32_t processor;    // of the member that has it, as seen last; ~0: it did not run yet
  uint32_t reserved[4];
};

// TokenGroup::state: a member, and what it has of the token. A lent token is there for the taking.
inline constexpr uint32_t kTokenHeld = 1u << 30, kTokenLent = 2u << 30, kTokenWho = kTokenHeld - 1;

// Something that several processes can map by its name: a file or a System V segment.
struct SharedObject {
  uint64_t device, inode;  // kSegmentDevice: a System V segment and its id
  uint32_t group, reserved;
};
inline constexpr uint64_t kSegmentDevice = ~0ull;

// The word of a robust mutex that a thread held when it last let others run.
struct HeldWord {
  uint32_t member;                 // its process; 0: not in use
  uint32_t owner;                  // its id, as the word has it; 0: not filled in yet
  uint64_t device, inode, offset;  // of what is mapped there, as in /proc/PID/maps
  uint64_t address;                // in that process
};

// A process in which a thread has kept the token (token.cc) for long while others wait for it; `pid` 0: not in use.
struct KeptThread {
  uint32_t pid, tid;  // as the process sees them
  uint64_t pid_namespace;
  uint32_t looks;  // of one that waits, about one a millisecond, at which nothing had happened
  uint32_t reserved;
};

inline constexpr uint32_t kMaxKept = 1 << 8;
inline constexpr uint32_t kMaxMembers = 1 << 20, kMaxGroups = 1 << 16, kMaxObjects = 1 << 16, kMaxHeldWords = 1 << 10;
struct TokenArea {
  uint64_t session;                   // random; FileHeader::sharing of the traces
  uint32_t guard;                     // the member that changes what follows, or joins groups
  uint32_t members, groups, objects;  // in use
  uint32_t files;                     // of the objects, those that are files
  uint32_t held_words, held_top;      // in use; index behind the last that ever was
  uint32_t reserved;
  KeptThread kept[kMaxKept];
  HeldWord held[kMaxHeldWords];
  TokenGroup group[kMaxGroups];
  SharedObject object[kMaxObjects];
  TokenMember member[kMaxMembers];
};

// ---- Recorded process <-> collector: SOCK_SEQPACKET, one request at a time, answered in order unless said otherwise

inline constexpr int kSocketFd = 1000;  // preferred number; FRIDAY_SOCKET in the environment says which
inline constexpr char kSocketVariable[] = "FRIDAY_SOCKET";

enum RequestKind : uint32_t {
  kHello = 1,   // first message of a process; reply carries the trace's descriptor
  kModule = 2,  // analyse and copy a mapped file; may carry its descriptor; reply: ModuleReply with sites
  kRoom = 3,    // no reply; FileHeader::room is bumped
  kFork = 4,    // a child will be forked; reply: ForkReply with descriptors of its trace and socket
  kForked = 5,  // from the child: its pid. No reply
  kEnding = 6,  // an EndRecord was written. No reply
  kSpawn = 7,   // a child by vfork will execute the program `text`; reply: ForkReply with the descriptor of its socket
  kExecutes = 8,     // this process will execute the program `text`, behind the event before `offset`. No reply
  kNotExecuted = 9,  // by a child by vfork, on the socket it was given: there will be no such node. No reply
  kReached = 11,     // this process has written into the memory of the process `detail`. No reply
  kNotice = 10,      // something that whoever reads the recording should know: `text`. No reply
};

inline constexpr char kNoAddresses[] = "no room at the shim's addresses";  // Request::text of kEnding

struct Request {
  uint32_t kind;
  uint32_t pid;
  uint32_t executable;  // kModule: wants call sites
  uint32_t reason;      // kEnding: EndReason; kSpawn, kExecutes: effective user id
  int32_t detail;       // kSpawn, kExecutes: not 0: real and effective user, or group, differ
  uint32_t reserved;
  uint64_t low, high, offset;  // kModule: the mapping
  uint64_t device, inode;
  char text[256];  // kModule, kSpawn, kExecutes: path; kEnding, kNotice: text
};

struct HelloReply {
  uint32_t clock_kind;
  uint32_t flags;        // HelloFlag
  uint32_t state_every;  // a state hash at each n-th call of a thread; 0: none
  uint32_t reserved;
  uint64_t vdso_clock_gettime;  // offset in the vdso, 0: do not use
  uint64_t vdso_gettimeofday, vdso_time, vdso_getcpu, vdso_clock_getres, vdso_getrandom;
  uint32_t cpuid[8][4];  // for ImageRecord::cpuid: in a virtual machine each takes its time
};
enum HelloFlag : uint32_t {
  kCatchAllOnly = 1,  // patch nothing
  kVdsoCallable = 2,  // the real vdso's clock functions touch general registers only: the shim may call them
};

enum SiteKind : uint8_t {
  kSiteBefore = 1,  // `length` bytes before the syscall are moved to the stub; the syscall's bytes stay
  kSiteAfter = 2,   // the syscall and the bytes after it are replaced, `length` in all
  kSiteRdtsc = 3,
  kSiteRdtscp = 4,
  kSiteRdrand = 5,
  kSiteRdseed = 6,  // `detail`: register number and operand size
  kSiteXbegin = 7,  // a transaction, which never starts
  kSitePause = 8,
  kSiteXsave = 9,  // `detail` 1: the compact form
  kSiteCpuid = 10,
  kSiteLoop = 11,  // instructions of a loop that may wait, moved to the stub; `detail`: where in them a displacement to
                   // rip stands, 0: none
  kSiteRdpid = 12,
  kSiteLsl = 13,  // `detail` of kSiteLsl: none, both registers stand in the instruction
  kSiteXgetbv = 14,
  kSiteGsBase = 15,  // `detail` 0: rdgsbase, 1: wrgsbase and what loads %gs, which sets its base too
};
constexpr bool is_planted(unsigned kind) {
  return kind >= kSiteRdtsc && kind != kSiteLoop;
}  // an ud2, which the shim carries out

struct Site {
  uint64_t offset : 48;  // in the file, of the first byte replaced
  uint64_t kind : 4;
  uint64_t length : 4;
  uint64_t detail : 8;
};
static_assert(sizeof(Site) == 8);

inline constexpr uint32_t kMaxSites = 20000;
inline constexpr uint32_t kMaxLoops = 1000;  // of them, kSiteLoop
struct ModuleReply {
  uint8_t file[16];  // zero: no copy could be made
  uint64_t file_size;
  uint32_t build_id_size;
  uint8_t build_id[20];
  uint32_t site_count;
  uint32_t reserved;
  Site sites[];
};

struct ForkReply {
  uint32_t ok;
  uint8_t node_uuid[16];
};

}  // namespace friday::shim
