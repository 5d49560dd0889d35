// The shim leaves a process in which it cannot work: one that installs a seccomp filter against the shim's calls, uses
// Syscall User Dispatch or the base of %gs itself, or maps addresses that Friday uses. The recording has ended by then,
// with the reason. From then on the program runs as if it had never been recorded: its code and vdso are restored, and
// its signals, signal stacks and thread id registrations are the kernel's again.
//
// This happens in a signal handler, whose return restores the program's registers, mask and signal stack in one step.
// If the reason is a system call, the thread sends itself kPokeSignal for that, and the program then makes the call
// with its own instruction.
#include <asm/prctl.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/shm.h>
#include <linux/signal.h>
#include <linux/wait.h>

#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

bool leaving, left;

// Whether the call maps, unmaps or protects addresses that Friday uses.
bool wants_own_addresses(uint64_t call, const uint64_t* a) {
  switch (call) {
    case sys::mmap: return a[3] & MAP_FIXED && is_fridays(a[0], a[1]);
    case sys::mprotect:
    case sys::munmap:
    case sys::madvise: return is_fridays(a[0], a[1]);
    case sys::mremap: return is_fridays(a[0], a[1]) || (a[3] & MREMAP_FIXED && is_fridays(a[4], a[2]));
    case sys::shmat: return a[2] & SHM_REMAP && is_fridays(a[1], 1);
    default: return false;
  }
}

// Moves the kernel's vdso and its data back to where they were.
void give_back_vdso() {
  vdso_clock_gettime = nullptr;
  vdso_gettimeofday = nullptr;
  vdso_time = nullptr;
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));) {
    if (line.low < kVdsoAddress || line.low >= kOwnEnd) continue;
    native(sys::mremap, line.low, line.high - line.low, line.high - line.low, MREMAP_MAYMOVE | MREMAP_FIXED,
           vdso_was_at + (line.low - kVdsoAddress));
  }
}

// How the kernel would answer a call that filters or dispatches system calls. A child process makes the call, reports
// the result in shared memory and is killed; it spins until then, because the filter may allow it no further call.
long try_in_child(const CallFrame* frame) {
  constexpr long kUndone = 1;
  const long page = native(sys::mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (failed(page)) return 0;
  volatile long* const result = (volatile long*)page;
  *result = kUndone;
  const uint64_t everything = ~0ull;
  uint64_t before = 0;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, &before, 8);
  const uint64_t* a = arguments_of(frame);
  const long parent = native(sys::getpid), child = native(sys::clone, 0 /* tells nobody of its end */, 0, 0, 0, 0);
  if (child == 0) {
    native(sys::prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (native(sys::getppid) != parent) native(sys::exit_group, 1);
    const long done = native((long)frame->rax, a[0], a[1], a[2], a[3], a[4], a[5]);
    *result = done > 0 ? 0 : done;
    for (;;) asm volatile("pause");
  }
  const long nap[2] = {0, 50000};
  int status = 0;
  while (!failed(child) && *result == kUndone && native(sys::wait4, child, &status, __WALL | WNOHANG, 0) == 0)
    native(sys::nanosleep, nap, 0);
  const long said = *result;
  if (!failed(child)) native(sys::kill, child, SIGKILL), native(sys::wait4, child, &status, __WALL, 0);
  native(sys::rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
  native(sys::munmap, page, 4096);
  return said == kUndone ? 0 : said;
}

}  // namespace

bool is_fridays(uint64_t low, uint64_t size) { return size && low < kOwnEnd && low + size > kOwnLow; }

bool rules_calls(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  const bool filters =
      frame->rax == sys::prctl ? a[0] == PR_SET_SECCOMP : frame->rax == sys::seccomp && a[0] <= SECCOMP_SET_MODE_FILTER;
  if (filters) return !filter_suits(frame);
  return frame->rax == sys::prctl && a[0] == PR_SET_SYSCALL_USER_DISPATCH;
}

long rules_refused(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  // As far as the program can tell, PR_SYS_DISPATCH_OFF is the present state.
  const bool off = frame->rax == sys::prctl && a[0] == PR_SET_SYSCALL_USER_DISPATCH && a[1] == PR_SYS_DISPATCH_OFF;
  return off && !(a[2] | a[3] | a[4]) ? kRulesAsBefore : try_in_child(frame);
}

bool could_leave(const ThreadArea* area) { return live_threads == 1 && !area->borrowed && !area->native; }

bool can_leave(const ThreadArea* area) { return could_leave(area) && control.mode != kModeReplay; }

const char* reason_to_leave(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == sys::arch_prctl) return a[0] == ARCH_SET_GS && a[1] ? kUsesGs : nullptr;
  return wants_own_addresses(frame->rax, a) ? "it maps or unmaps addresses that Friday uses" : nullptr;
}

long refuse_instead(const CallFrame* frame, const char* why) {
  static bool told;
  if (control.mode == kModeRecord && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
    collector_notice(
        "because of Friday a call failed in a process of several threads (of one with a single thread the recording "
        "would have ended there): ",
        why);
  return frame->rax == sys::arch_prctl ? -EINVAL : -ENOMEM;
}

void leave_at_call() {
  const uint64_t all_but_poke = ~(1ull << (kPokeSignal - 1));
  native(sys::rt_sigprocmask, SIG_SETMASK, &all_but_poke, 0, 8);
  leaving = true;
  uint64_t info[16] = {};
  info[0] = kPokeSignal;
  info[1] = (uint32_t)-1;  // SI_QUEUE
  native(sys::rt_tgsigqueueinfo, native(sys::getpid), native(sys::gettid), kPokeSignal, info);
  __builtin_unreachable();  // on_poke() does not come back here
}

bool leave_is_due() { return leaving; }

bool shim_has_left() { return left; }

void leave_process(ThreadArea* area) {
  left = true;
  leaving = false;
  const bool clean = code_give_back();
  if (vdso_was_at) give_back_vdso();
  if (area->look_timer) native(sys::timer_delete, area->look_timer - 1);
  part_look_no_more();
  if (area->clear_tid) native(sys::set_tid_address, area->clear_tid);
  native(sys::prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
  // Programs that the process executes from now on are not recorded.
  if (own_socket() >= 0) native(sys::fcntl, own_socket(), F_SETFD, FD_CLOEXEC);
  exec_forget();
  trace_detach();
  if (clean) native(sys::arch_prctl, ARCH_SET_GS, 0);
}

}  // namespace friday::shim
