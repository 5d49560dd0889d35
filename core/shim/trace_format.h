// The bytes of a trace: what the shim writes while recording and feeds back while replaying, and what every reader
// outside reads. This header is freestanding (the shim includes it); core/trace gives it meaning. docs/trace-format.md
// documents it field by field and must change in the same commit.
//
// A trace file is one page of FileHeader followed by records. Every record starts with RecordHeader, is a multiple of
// 8 bytes long, and may be skipped by its size; a reader skips types it does not know. All integers are little-endian.
// A record becomes part of the trace when FileHeader::committed is moved past it (release store), so a killed program
// or collector never leaves a torn record inside the committed range. Bytes past `committed` are not data.
//
// Time: ticks are the host's time-stamp counter when FileHeader::clock_kind says so (constant rate and the kernel's own
// clock source, checked by the collector), else nanoseconds of CLOCK_MONOTONIC. ClockRecords tie ticks to
// CLOCK_MONOTONIC and CLOCK_REALTIME. On one boot of one host ticks are comparable between processes.
#pragma once

#include <stdint.h>

#include "core/shim/call_numbers.h"

namespace friday::format {

inline constexpr char kMagic[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'T', '1'};
inline constexpr uint32_t kVersion = 3;
inline constexpr uint64_t kHeaderSize = 4096;
// The window of address space the trace is mapped into, in the recorded and in the replayed process.
inline constexpr uint64_t kWindowAddress = 0x100000000000;
inline constexpr uint64_t kWindowSize = 1ull << 38;

// Bits of FileHeader::features; a reader refuses a trace with a bit it does not know.
enum Feature : uint64_t {
  kFeatureImage = 1 << 0,         // holds a start image
  kFeatureForkChild = 1 << 1,     // begins as a fork of another node; has no image of its own
  kFeatureChecksums = 1 << 2,     // every record's checksum is valid
  kFeatureSharedMemory = 1 << 3,  // shares writable memory with other processes, or could have
  kFeatureClockWords = 1 << 4,    // readings of clocks stand in the events themselves (kFlagClock)
  // A part: begins in a process that was already running, where the trace of the node `parent_uuid` ended. If that is
  // zero, the recording of the process begins here.
  kFeaturePart = 1 << 5,
  kFeatureMappedBefore = 1 << 6,  // its first events are mappings that the process had before (kMappedBefore)
  // A schedule: it has no image and only events of communication, so it cannot be replayed (schedule.h).
  kFeatureSchedule = 1 << 7,
};

// Where the process is between its last event and the next one. If it was killed, this says how far a replay can
// follow.
enum RunState : uint32_t {
  kInCall = 0,     // in the kernel, at its next event
  kComputing = 1,  // on the way to its next event
  kFaulted = 2,    // at the instruction whose fault ended it
};

enum ClockKind : uint32_t { kClockTsc = 1, kClockMonotonic = 2 };

// How often the process has made a call that was refused (REFUSE in calls.def).
struct RefusedCall {
  uint32_t call, count;  // count 0: the entry is not used
};
inline constexpr unsigned kMostRefused = 16;  // different calls; those beyond are not counted

// FileHeader::wanted
enum Wanted : uint32_t {
  kNoPart = 0,
  kPartWithNews = 1,   // a new part, if events were recorded in the present one
  kPartInAnyCase = 2,  // a new part, even if none were
  kNothing = 3,        // the process shall go on unrecorded (FileHeader::on_standby)
  kOnlySchedule = 4,   // the process, which is on standby, shall keep a schedule (kFeatureSchedule)
  // As kPartInAnyCase and kNothing, but for all processes that share memory with each other at the same moment: each
  // stands still until all do.
  kPartTogether = 5,
  kNothingTogether = 6,
};

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;  // offset of the first record
  uint64_t features;
  uint32_t clock_kind;
  uint32_t abi_version;  // of the shim that recorded (shim_abi.h kAbiVersion)
  uint8_t boot_id[16];
  uint8_t node_uuid[16];
  uint8_t parent_uuid[16];    // of the node this one was forked or executed from; zero if none
  uint64_t fork_event;        // event of the parent whose call made this process
  uint64_t ticks_per_second;  // estimate; 10^9 for kClockMonotonic
  uint32_t pid;               // as the program saw it
  uint32_t parent_pid;
  uint64_t sharing;  // TokenArea::session: the recording in which numbers of groups and shared objects are unique
  // Written by the program (shim), each on its own cache line.
  alignas(64) uint64_t committed;
  uint64_t events;   // events within `committed`
  uint32_t ended;    // 1 once an EndRecord is committed
  uint32_t wanted;   // Wanted: whether the process shall go on in a new trace. Stored by the collector
  uint32_t running;  // RunState
  // 1: the process stands by. It runs unrecorded, and nothing stands in this trace, until a part is wanted. Stored by
  // the collector before the process has the trace.
  uint32_t on_standby;
  uint64_t trapped;     // calls from code that was not patched, caught by Syscall User Dispatch
  uint64_t faulted_at;  // kFaulted: address of that instruction; 0: not known
  // The signal that the fault has raised, or by which the process kills itself in the call under way; 0: none.
  uint32_t dies_of;
  uint64_t output;  // bytes in kOutput parts
  // Written by the collector.
  alignas(64) uint64_t allocated;  // bytes of the file that can be stored to without a fault
  uint32_t room;                   // futex: incremented when `allocated` has grown, or when it never will again
  uint32_t closed;                 // 0: more room can come; otherwise the EndReason for which none will
  uint32_t packing;                // 1: blocks that the program no longer writes to may move to the compressed file
  uint32_t imaged;  // 1: all records before `image_end` are written. Stored by the process that writes them
  // XXH3-64 of the header page, computed with zero in this field. It is stored when the node has ended; 0 until then.
  uint64_t checksum;
  // The offset at which the start image of a part ends. It is used if a forked copy of the process writes the image:
  // meanwhile the process itself goes on and writes its records behind this offset. 0: no copy writes the image.
  uint64_t image_end;
  // How many bytes of room the collector has made ready for the image of the next part; ~0: it cannot make any.
  uint64_t image_room;
  uint32_t first_bytes;  // kFeatureSchedule: how many bytes of a message are kept, fewer than 65536
  // Written by the program.
  alignas(64) RefusedCall refused[kMostRefused];
};
static_assert(sizeof(FileHeader) <= kHeaderSize);
static_assert(__builtin_offsetof(FileHeader, allocated) == 192 && __builtin_offsetof(FileHeader, checksum) == 216 &&
              __builtin_offsetof(FileHeader, image_end) == 224 && __builtin_offsetof(FileHeader, image_room) == 232 &&
              __builtin_offsetof(FileHeader, refused) == 256);

// block_hash(bytes, seed): XXH3-64 over blocks of kHashBlock bytes, each block's hash the seed of the next; the last
// block has 1 to kHashBlock bytes, or none if there are none at all. This is the longest input that XXH3 hashes without
// the steps that are made for vector registers. The shim may not touch these, and is twice as fast by such blocks.
inline constexpr uint32_t kHashBlock = 240;

enum RecordType : uint16_t {
  // Not events.
  kImageRecord = 1,    // ImageRecord: registers and limits of the start image
  kImageMap = 2,       // ImageMapRecord: one mapping
  kImagePages = 3,     // ImagePagesRecord: contents
  kChannelRecord = 4,  // ChannelRecord: a descriptor seen for the first time
  kClockRecord = 5,    // ClockRecord
  kModuleRecord = 6,   // ModuleRecord: a file mapped into the process, with build-id and content hash
  kEndRecord = 7,      // EndRecord: the recording of this node ends here
  kTurnRecord = 8,     // TurnRecord: the process begins a turn in its token group
  kSharedPages = 9,    // SharedPagesRecord: contents of memory that the next event maps
  kImageBytes = 10,    // ImageBytesRecord: contents of a part of a page
  kFiller = 12,        // nothing; fills the room that was left for an image
  kImageThread = 11,   // ImageThreadRecord: a thread of a process that was running when its image was taken
  // Events, counted from 0 in file order. That order is the order in which the process's thread token was held.
  kCall = 16,         // a system call during which the thread kept the token
  kRelease = 17,      // the entry of a call during which it lost the token
  kReturn = 18,       // the return of that call
  kSignal = 19,       // a signal handler is entered at a call boundary
  kThreadStart = 20,  // first turn of a new thread; of a forked child: its first event
  kThreadExit = 21,   // last turn of a thread
  kInstruction = 22,  // result of rdtsc, rdtscp, rdrand, rdseed, cpuid, rdpid, lsl
  kYield = 23,        // the token was handed over without a call
  // Reserved for later work, so that old readers skip them by name.
  kBranches = 64,
  kCutValue = 65,
  kSchedule = 66,
  kStack = 67,
  kProcessImage = 68,
};

struct RecordHeader {
  uint32_t size;  // of the whole record, header included; multiple of 8
  uint16_t type;  // RecordType
  uint16_t flags;
  uint32_t checksum;  // low half of block_hash(its bytes with this field zero, the record's file offset)
  uint32_t thread;    // thread number for events, else 0
};

enum EventFlag : uint16_t {
  kFlagRestarted = 1 << 0,  // the call is made again after a signal handler (SA_RESTART)
  kFlagNative = 1 << 1,     // executed natively at replay too (memory mapping calls)
  kFlagAtEntry = 1 << 2,    // kSignal: delivered before the call at which the thread stood was made
  kFlagState = 1 << 3,      // has a kState part
  // A clock was read. Its two words, stored at argument clock_argument(), are in `input_hash` and `return_ticks`. A
  // third of the events of many servers are such calls, and recording costs time by the byte.
  kFlagClock = 1 << 4,
  kFlagOwnerDied = 1 << 5,  // has kOwnerDiedWord parts
};
inline constexpr unsigned clock_argument(uint16_t call) {
  return call == shim::sys::clock_gettime ? 1 : 0 /* gettimeofday */;
}

// An event: this header, then argument_count 64-bit argument values, then part_count parts.
struct EventRecord {
  RecordHeader header;
  uint64_t index;               // counted from 0 in this trace
  uint32_t thread_seq;          // counted from 0 in this thread
  uint16_t call;                // system call number; signal number for kSignal; InstructionKind, YieldKind
  uint16_t argument_count : 4;  // arguments recorded (the call's arity)
  uint16_t part_count : 12;     // kMaxParts at most
  int64_t result;               // return value or -errno
  uint64_t input_hash;          // hash of what the call reads from memory; 0 if nothing. kInstruction: its second
                                // result (rdtscp: ecx, rdrand, rdseed: carry flag, cpuid: ecx and edx, lsl: zero flag)
  uint64_t entry_ticks;
  uint64_t return_ticks;  // equals entry_ticks for kRelease
};
static_assert(sizeof(EventRecord) == 64);
inline constexpr unsigned kMaxParts = 4095;

// EventRecord::call of kYield. Argument 1 of all but kYieldSpin and kYieldResumed is a hash of the address and the
// general registers at the point (yield.cc).
enum YieldKind : uint16_t {
  kYieldPause = 1,        // at a `pause`; argument 0: its number among those that the thread has executed, from 1
  kYieldSpin = 2,         // in a pure spin; arguments: instructions of an iteration, their hash; part: kSpinPoint
  kYieldInstruction = 3,  // behind the instruction that the previous event records
  kYieldResumed = 4,      // the thread that has yielded goes on after other processes have run
  kYieldCall = 5,         // behind the call that the previous event records
  kYieldLoop = 6,         // at a loop site; argument 0: its number among those that the thread has passed, from 1
};
enum InstructionKind : uint16_t {
  kRdtsc = 1,
  kRdtscp = 2,
  kRdrand = 3,
  kRdseed = 4,
  kCpuid = 8,
  kRdpid = 10,
  kLsl = 11
};

// A part: this header, then `size` bytes padded to 8.
struct PartHeader {
  uint16_t kind;  // PartKind
  uint16_t flags;
  uint32_t size;
  uint64_t address;  // kMemory: where the bytes go; else 0
};

enum PartKind : uint16_t {
  kMemory = 1,        // bytes that the call wrote at `address`
  kTransfer = 2,      // TransferPart: bytes moved through a channel
  kFileIdentity = 3,  // FileIdentityPart: what an open file is
  kMapContent = 4,    // MapContentPart: contents of a file mapping
  kDescriptors = 5,   // DescriptorsPart: new descriptors and the channels behind them
  kChild = 6,         // ChildPart: the thread or process that the call created
  kSignalInfo = 7,    // siginfo_t as delivered, 128 bytes
  kWait = 8,          // WaitPart: which child a wait returned
  kPath = 9,          // a path argument, without NUL
  kSites = 10,  // array of Site (shim_abi.h): those patched in the module that the call maps; `address`: of its stubs
  kSpinPoint = 11,      // SpinPoint
  kSharedMap = 12,      // SharedMapPart: the call maps or unmaps shared memory
  kSharedWrite = 13,    // SharedWritePart: the call changes a file that is mapped as shared memory
  kState = 14,          // StatePart: a hash of the program's state at this call
  kSync = 15,           // SyncPart: whether a call on a lock or semaphore takes or releases it
  kOwnerDiedWord = 16,  // OwnerDiedPart: the kernel has changed the word at `address`, of a mutex whose owner has died
  // What the call has written to the standard output or error (descriptor 1 or 2), or the first bytes of it; in a
  // schedule, of what any call has sent. For readers of the trace only: a replayed program computes it again.
  kOutput = 17,
};

inline constexpr unsigned kSocketAddressBytes = 112;
struct SocketAddress {
  uint32_t length;  // of the sockaddr; 0: none
  // The sockaddr as this side sees it. Truncated only for unusual families with longer addresses.
  uint8_t bytes[kSocketAddressBytes];
};

enum ChannelKind : uint32_t {
  kChannelUnknown = 0,
  kChannelFile = 1,
  kChannelStream = 2,
  kChannelDatagram = 3,
  kChannelPipe = 4,
  kChannelEvent = 5 /* eventfd, timerfd, signalfd, epoll */,
  kChannelTerminal = 6,
  kChannelListen = 7,
  kChannelSeqpacket = 8,
  kChannelDevice = 9,
};

// An open file description (open(2)) as seen by this process. A later record with the same `channel` replaces the
// addresses, because the socket was bound or connected. Numbers are never reused in a trace; a forked child inherits
// its parent's.
struct ChannelRecord {
  RecordHeader header;
  uint64_t channel;                 // number in this trace, from 1
  uint64_t event;                   // index of the event at which it was first seen
  uint32_t kind;                    // ChannelKind
  int32_t fd;                       // descriptor by which it was seen
  uint32_t domain, type, protocol;  // of sockets
  uint32_t open_flags;
  uint64_t device, inode;  // fstat: names a file, a FIFO, or both ends of a pipe
  SocketAddress local, remote;
};
// Behind a ChannelRecord, unless the record ends there, as those of earlier recorders do: how many bytes have moved
// through the channel before, and the hash of what was sent (TransferPart::offset and hash).
struct ChannelPositions {
  uint64_t in_bytes, out_bytes, out_hash;
};
// Behind that: who is at the other end of a connected Unix socket (SO_PEERCRED): the process that called connect(2) or,
// as that one sees it, listen(2). 0: not known, or a process that this one's pid namespace does not show.
struct ChannelPeer {
  uint32_t pid, reserved;
};

enum Direction : uint8_t { kIn = 1, kOut = 2 };
enum Representation : uint8_t {
  kInline = 1,    // the payload stands in this event's kMemory parts
  kHashOnly = 2,  // only its hash (what a sender records)
  kHeaderOnly = 3,
  kFileReference = 4,
  kPeerReference = 5,
  kInferred = 6,
  kBeginning = 7,  // the first TransferPart::kept bytes stand in this event's kMemory parts
};
enum TransferFlag : uint16_t { kPeek = 1, kTruncated = 2, kOutOfBand = 4, kEndOfStream = 8 };

// Bytes that moved through a channel. run_hash(bytes, seed) is the XXH3-64, with that seed, of the 8 bytes of
// block_hash(bytes, 0): so a call's input hash and the hash of what it has sent need one pass over the bytes. Streams:
// `offset` is the channel's byte count in this direction before the transfer, and `hash` = run_hash(bytes moved, hash
// of the previous transfer of this channel and direction; 0 at first): a chain that a reader who has the payload of the
// other side can follow at this side's boundaries. Receivers have the payload inline and leave `hash` 0 for streams.
// Datagrams: `hash` = run_hash(datagram, 0) on both sides. `peer` is left out (the part is kTransferBytes long) when
// its length is 0.
struct TransferPart {
  uint64_t channel;
  uint64_t offset;
  uint64_t hash;
  uint64_t length;       // bytes moved
  uint64_t true_length;  // of a datagram that was cut (MSG_TRUNC); else = length
  uint8_t direction;
  uint8_t representation;
  uint16_t flags;      // TransferFlag
  uint16_t message;    // which message of a sendmmsg/recvmmsg
  uint16_t kept;       // kBeginning: how many bytes are kept
  SocketAddress peer;  // datagrams: the other side if the call names it, else length 0
};
inline constexpr uint32_t kTransferBytes = 48;  // of a TransferPart without its peer
static_assert(__builtin_offsetof(TransferPart, peer) == kTransferBytes);

struct FileIdentityPart {
  uint64_t channel, device, inode, size;
  int64_t mtime_ns;
  uint32_t mode, flags;
};

struct MapContentPart {
  uint8_t file[16];  // XXH3-128 of the copy in the recording's files/, or zero: contents follow as a kMemory part
  uint64_t offset, length;
};

struct DescriptorsPart {  // repeated size/sizeof times
  uint64_t channel;
  int32_t fd;
  uint32_t reserved;
};

struct ChildPart {
  uint32_t thread;        // number of the new thread, or 0 for a process
  uint32_t pid;           // tid or pid as the program sees it
  uint8_t node_uuid[16];  // of the new process's trace; zero for a thread or an unrecorded process
};

struct WaitPart {
  uint32_t pid, status;
};

// A point in a pure spin: the registers at one instruction of the loop, the same in each iteration.
struct SpinPoint {
  uint64_t rip, eflags, rsp;  // eflags: the bits of kSpinFlags
  uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
};
inline constexpr uint64_t kSpinFlags = 0xcd5;  // carry, parity, adjust, zero, sign, direction, overflow
// The hash of an iteration: called with 0 and then with its own result, for the registers after each instruction.
inline uint64_t spin_hash(uint64_t hash, const SpinPoint& point) {
  const uint64_t* words = &point.rip;
  for (unsigned i = 0; i < sizeof point / 8; i++) {
    hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

enum SyncRole : uint32_t { kLetsGo = 1, kAcquires = 2 };
struct SyncPart {
  uint32_t role, reserved;
};

enum OwnerDiedFlag : uint32_t {
  kOwnerDiedBefore = 1 /* changed before the program went on after the previous event */
};
struct OwnerDiedPart {
  uint32_t value, flags;  // the word's new value; OwnerDiedFlag
};

// Hashes (block_hash, seed 0) of the program's state at the entry of a call.
struct StatePart {
  uint64_t registers;      // of rbx, rbp, r12 to r15, rsp and the address that the call returns to
  uint64_t stack, memory;  // of `stack_bytes` above rsp, and of `memory_bytes` at `address`
  uint64_t address;
  uint32_t stack_bytes, memory_bytes;  // 0: not hashed
};

enum SharedFlag : uint32_t {
  kObjectIsNew = 1,
  kUnmapped = 2,
  kInherited =
      4,  // anonymous, or a mapping of /dev/zero: it has no number, and only children of the process can share it
  // The process had the mapping when its recording began. The event is no call of the program: a replay makes the
  // mapping before the program goes on.
  kMappedBefore = 8,
};
struct SharedMapPart {
  uint64_t object;          // number, from 1; 0 if kInherited
  uint64_t offset, length;  // in the object; whole pages
  uint64_t address;
  uint64_t size;             // present length of the object; accesses to mapped pages behind it fault
  uint32_t flags, reserved;  // SharedFlag
};

enum SharedChange : uint32_t {
  kChangeWrite = 1,     // the object gets the bytes that the call writes, which are in the program's memory
  kChangeZero = 2,      // `length` bytes become zero
  kChangeSize = 3,      // the object's length becomes `length`
  kChangeAllocate = 4,  // the object's length becomes `offset` + `length` if it is shorter
  kChangePages =
      5,  // the object gets bytes that were never in the program's memory: those of SharedPagesRecords before the event
};
struct SharedWritePart {
  uint64_t object, offset, length;
  uint32_t change, reserved;
};

enum TurnFlag : uint32_t {
  kHolderDied = 1,  // the process whose turn it was has been killed while it ran, so its last stores are not known
  // No turn begins: the process's group becomes part of `group`. Everything before event `event` happens before the
  // turns of `group` that follow its turn number `turn`.
  kJoins = 2,
};
// From event `event` on, the process runs in turn number `turn` of its group, until another process's turn begins.
struct TurnRecord {
  RecordHeader header;
  uint64_t event, turn;
  uint64_t ticks;
  uint32_t group;
  uint32_t flags;  // TurnFlag
};

// Followed by `bytes` bytes of an object, padded to 8. Bytes that are in no record are zero, or as other nodes left
// them.
struct SharedPagesRecord {
  RecordHeader header;
  uint64_t object, offset, bytes;
};

struct ClockRecord {
  RecordHeader header;
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t realtime_ns;
  uint64_t event;  // index of the next event
};

inline constexpr uint32_t kPathBytes = 256;
struct ModuleRecord {
  RecordHeader header;
  uint64_t event;      // 0 for modules of the start image
  uint8_t file[16];    // XXH3-128: name of its copy in files/
  uint64_t low, high;  // address range
  uint64_t device, inode;
  uint32_t build_id_size;
  uint8_t build_id[20];
  uint32_t sites_patched, sites_trapped;
  char path[kPathBytes];  // as the process's maps show it
};

enum EndReason : uint32_t {
  kEndExit = 1,       // exit_group(2); `detail` is its argument
  kEndUnhandled = 2,  // a call that Friday does not handle; `detail` is its number. The program went on
  kEndDiskFull = 3,
  kEndCollectorGone = 4,
  kEndExec = 5,     // replaced by another program
  kEndRefused = 6,  // something cannot be recorded; `text` says what
  kEndStopped = 7,  // the collector has asked for it
  kEndSizeLimit = 8,
  // The process goes on in another trace, of the node that has this one as its parent (kFeaturePart); `detail` 1: it
  // goes on unrecorded.
  kEndContinued = 9,
};

struct EndRecord {
  RecordHeader header;
  uint64_t event;  // number of events before
  uint64_t ticks;
  uint32_t reason;  // EndReason
  int32_t detail;
  char text[64];
};

// ---- Start image

// The leaves and subleaves of ImageRecord::cpuid.
inline constexpr uint32_t kCpuidLeaves[8][2] = {{0, 0},   {1, 0},          {7, 0},          {7, 1},
                                                {0xd, 1}, {0x80000001, 0}, {0x80000007, 0}, {0x80000008, 0}};

struct ImageRecord {
  RecordHeader header;
  // Where to resume inside the shim.
  uint64_t rip, rsp;
  uint64_t fs_base, gs_base;
  uint64_t control;  // address of the shim's Control block (shim_abi.h)
  uint64_t brk_start, brk_end;
  uint64_t stack_low, stack_high;
  uint64_t signal_mask;  // of the main thread
  uint64_t altstack[3];  // ss_sp, ss_flags, ss_size
  uint64_t auxv_address, auxv_bytes;
  uint64_t vdso_low, vdso_high;
  uint32_t mxcsr, fpu_control;
  uint64_t xcr0;
  uint32_t cpuid[8][4];  // of kCpuidLeaves: eax, ebx, ecx, edx
  uint64_t rlimits[16][2];
  struct {
    uint64_t handler, flags, restorer, mask;
  } actions[65];  // as the kernel holds them, by signal number
  char exe[kPathBytes];
};

enum MapKind : uint32_t {
  kMapAnonymous = 0,
  kMapFile = 1,
  kMapVdso = 2,
  kMapStack = 3,
  kMapHeap = 4,
  kMapSharedFile = 5,
  kMapShim = 6
};

struct ImageMapRecord {
  RecordHeader header;
  uint64_t low, high, offset;
  uint64_t device, inode;
  uint32_t protection;  // PROT_ bits
  uint32_t kind;        // MapKind
  uint8_t file[16];     // XXH3-128 of the copy in files/, or zero: all contents are in ImagePages
  uint64_t file_size;
  char path[kPathBytes];
};

// Followed by `pages` whole pages for `address`.
struct ImagePagesRecord {
  RecordHeader header;
  uint64_t address;
  uint64_t pages;
};

// Followed by `bytes` bytes for `address`, a multiple of 8. The rest of their page is as in the mapped file.
struct ImageBytesRecord {
  RecordHeader header;
  uint64_t address;
  uint64_t bytes;
};

// A thread of a process whose image was taken while it ran (kFeaturePart). It waits in the shim, in the call of its
// CallFrame or before its first turn. Followed by `bytes` bytes: its extended state in the standard form of xsave
// (Intel SDM volume 1, section 13.4), as in PTRACE_GETREGSET with NT_X86_XSTATE.
struct ImageThreadRecord {
  RecordHeader header;
  uint64_t number, tid;
  uint64_t fs_base;
  uint64_t bytes;
};

}  // namespace friday::format
