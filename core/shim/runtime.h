// What all files of the shim use. The shim runs inside the recorded or replayed process, without a C library, on stacks
// of its own, and uses general registers only, because it does not save the program's vector registers. Code outside
// the shim includes shim_abi.h instead.
//
// One thread at a time runs the program's code or code of the shim that touches shared state: the one that has the
// token (token.h). The exceptions are a thread inside a native() call during which the token is lent, and the shim's
// signal handlers, which may run at any time and therefore touch only what belongs to their thread or is atomic.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <asm/errno.h>

#include "core/shim/call_numbers.h"
#include "core/shim/shim_abi.h"

extern "C" {  // as <string.h> declares them, which <xxhash.h> includes
void* memcpy(void* to, const void* from, size_t size) noexcept;
void* memmove(void* to, const void* from, size_t size) noexcept;
void* memset(void* to, int byte, size_t size) noexcept;
int memcmp(const void* a, const void* b, size_t size) noexcept;
}

namespace friday::shim {

// ---- entry.S
extern "C" {
long friday_syscall(long number, long a, long b, long c, long d, long e, long f);
// Makes the program's call, unless a signal is pending for the thread: then it returns kNotMade.
long friday_interruptible(ThreadArea* area, long number, const uint64_t* arguments);
extern char friday_interruptible_start[], friday_interruptible_call[], friday_interruptible_abort[];
// The entries into the shim from the program's code:
void friday_enter();        // from the stub of a patched call site
void friday_enter_trap();   // for a call that raised SIGSYS because its site is not patched
void friday_enter_loop();   // from the stub of a loop site, when ThreadArea::loops_left has become 0
void friday_enter_pause();  // from the stub of one that begins with a `pause`, each time
void friday_enter_yield();  // for a thread that yields where it makes no call; ThreadArea::trap_rip is where it stands
// Unmaps [low, low + size), which may contain the calling thread's stack, sets ThreadArea::in_use to 0 and ends the
// thread.
[[noreturn]] void friday_exit_thread(uint64_t low, uint64_t size, uint64_t code);
[[noreturn]] void friday_leave(CallFrame* frame);  // returns to the program with the frame's registers
// clone(2). The new thread runs friday_thread_main(area).
long friday_apart(void* stack, void (*work)(void*), void* argument);
long friday_clone(long flags, void* stack, ThreadArea* area, long parent_tid, long child_tid, long tls);
long friday_trap_instruction();  // raises a trap to the core (replay.cc, trap())
// Copies with a single `rep movsb`. All that the shim writes to the program's memory at replay is written here, so the
// core can carry out the store when a page is watched.
void friday_copy_out(void* to, const void* from, size_t size);
// Registers to go back to when a read through a pointer of the program faults: see probed(). friday_probe fills them in
// and returns 0, and returns once more, with 1, after a fault.
struct Probe {
  uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
};
int friday_probe(Probe* probe) __attribute__((returns_twice));
extern char friday_straight_start[], friday_straight_call[], friday_straight_abort[];
extern char friday_trap_site[], friday_syscall_instruction[];
extern char friday_signal_return[];  // sa_restorer of the shim's own handlers
void friday_resume();                // where a thread of a part's start image begins
// Takes the start image and returns 0. A replay resumes from the image, so there the same call returns 1.
int friday_snapshot(format::ImageRecord* image);
void friday_xsave(void* area, uint64_t mask);
void friday_xrstor(const void* area, uint64_t mask);
extern char __ehdr_start[], friday_text_end[];
int friday_dispatch(CallFrame* frame);  // dispatch.cc
void friday_thread_main(ThreadArea* area);
void friday_yield(CallFrame* frame);  // yield.cc
}

// The result of a call that was not made because a signal must be delivered first: -ERESTARTSYS, which the kernel never
// returns to a program.
inline constexpr long kNotMade = -512;

// Makes a system call. Returns its result, or -errno.
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
// Runs `read`, which reads through pointers of the program. Returns false if that faulted, where the kernel would have
// answered EFAULT. What `read` has done by then stays done.
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
// File types in FileStat::mode: S_IFMT, S_IFSOCK and so on (inode(7)), which the kernel's headers hide beside glibc's.
inline constexpr uint32_t kFileType = 0170000, kSocketFile = 0140000, kRegularFile = 0100000, kDirectory = 0040000,
                          kCharacterDevice = 0020000, kFifo = 0010000;
inline bool is_regular(const FileStat& st) { return (st.mode & kFileType) == kRegularFile; }
inline bool is_socket(const FileStat& st) { return (st.mode & kFileType) == kSocketFile; }
inline bool is_zero_device(const FileStat& st) {
  return (st.mode & kFileType) == kCharacterDevice && st.rdev == 0x105;
}  // /dev/zero
extern uint16_t slots[kNumberedSlots];  // Control::slots
inline ThreadArea* area_at(uint64_t slot) { return (ThreadArea*)area_address(slot); }
// The area of the thread with this number. If there is no such thread, another one's: see area_is_of().
inline ThreadArea* area_of(uint32_t number) { return area_at(slots[number % kNumberedSlots]); }
inline bool area_is_of(const ThreadArea* area, uint32_t number) { return area->alive && area->number == number; }
// A queue of areas, linked by ThreadArea::next. An area is in one at a time.
struct AreaQueue {
  uint32_t first, last;  // slot + 1; 0: it is empty

  void put(ThreadArea* area) {
    area->next = 0;
    (last ? area_at(last - 1)->next : first) = area->slot + 1;
    last = area->slot + 1;
  }
  // `before`: the one in front of it; null: it is the first.
  void remove(const ThreadArea* area, ThreadArea* before) {
    (before ? before->next : first) = area->next;
    if (!area->next) last = before ? before->slot + 1 : 0;
  }
  ThreadArea* front() const { return first ? area_at(first - 1) : nullptr; }
};
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

inline const uint64_t* arguments_of(const CallFrame* frame) { return &frame->rdi; }
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed);  // block_hash of trace_format.h
// The same, with seed 0, of bytes that come in pieces.
class GatheredHash {
 public:
  void add(const void* data, uint64_t size);
  uint64_t end() const;

 private:
  uint64_t hash_ = 0;
  uint32_t filled_ = 0;
  char block_[format::kHashBlock];
};
uint64_t run_hash(uint64_t contents, uint64_t seed);  // of trace_format.h; `contents`: hash_bytes of the bytes, seed 0
uint32_t record_checksum(const void* record, size_t size, uint64_t offset);

extern Control control;
// Not 0: the process stands by (standby.h). It is not recorded, and its threads run without the token.
extern uint32_t on_standby;
// Whether what the program does is recorded now.
inline bool recording() { return control.mode == kModeRecord && __builtin_expect(!on_standby, 1); }

// Functions of the kernel's own vdso, which has been moved to kVdsoAddress. Null if the shim must not call them.
extern long (*vdso_clock_gettime)(long, void*);
extern long (*vdso_gettimeofday)(void*, void*);
extern long (*vdso_time)(void*);

}  // namespace friday::shim
