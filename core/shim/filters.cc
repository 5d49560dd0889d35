// Seccomp filters that a recorded program installs for itself. A filter judges the shim's calls as it does the
// program's, so recording goes on only behind one that allows all that the shim makes.
#include <linux/mman.h>
#include <linux/prctl.h>

#include "core/shim/calls.h"
#include "core/shim/filter_outcomes.h"
#include "core/shim/process.h"

namespace friday::shim {

namespace {

// The system calls that the shim makes by itself (tests/unit/test_names.py compares them with its code).
constexpr uint16_t kOwnCalls[] = {
    sys::arch_prctl,
    sys::brk,
    sys::clock_gettime,
    sys::clone,
    sys::close,
    sys::close_range,
    sys::dup2,
    sys::epoll_ctl,
    sys::execve,
    sys::exit,
    sys::exit_group,
    sys::faccessat,
    sys::fallocate,
    sys::fcntl,
    sys::fgetxattr,
    sys::fstat,
    sys::fstatfs,
    sys::ftruncate,
    sys::futex,
    sys::get_robust_list,
    sys::getdents64,
    sys::getegid,
    sys::geteuid,
    sys::getgid,
    sys::getpeername,
    sys::getpid,
    sys::getppid,
    sys::getrlimit,
    sys::getsockname,
    sys::getsockopt,
    sys::gettid,
    sys::getuid,
    sys::io_destroy,
    sys::io_setup,
    sys::ioctl,
    sys::kill,
    sys::lseek,
    sys::madvise,
    sys::memfd_create,
    sys::mincore,
    sys::mmap,
    sys::mprotect,
    sys::mremap,
    sys::munmap,
    sys::nanosleep,
    sys::newfstatat,
    sys::open,
    sys::openat,
    sys::personality,
    sys::pidfd_open,
    sys::pipe2,
    sys::poll,
    sys::prctl,
    sys::pread64,
    sys::process_vm_readv,
    sys::pwrite64,
    sys::read,
    sys::readlink,
    sys::recvmsg,
    sys::rt_sigaction,
    sys::rt_sigprocmask,
    sys::rt_sigqueueinfo,
    sys::rt_sigreturn,
    sys::rt_sigtimedwait,
    sys::rt_tgsigqueueinfo,
    sys::sched_yield,
    sys::semctl,
    sys::sendmsg,
    sys::set_robust_list,
    sys::set_tid_address,
    sys::setpriority,
    sys::setrlimit,
    sys::setsid,
    sys::shmat,
    sys::shmdt,
    sys::shutdown,
    sys::sigaltstack,
    sys::splice,
    sys::stat,
    sys::tgkill,
    sys::timer_create,
    sys::timer_delete,
    sys::timer_settime,
    sys::wait4,
    sys::write,
};

bool is_own_call(unsigned number) {
  for (const uint16_t own : kOwnCalls)
    if (own == number) return true;
  return false;
}

// Whether the filter must allow the call. Those that a replay makes again, or that the shim answers in the kernel's
// place, are the same as natively only if no filter stands in front of them.
bool must_be_allowed(unsigned number) {
  const Rule rule = call_info(number).rule;
  return is_own_call(number) || rule == kNative || rule == kSpecial;
}

bool suits(const sock_filter* code, unsigned length, FilterState* states) {
  const unsigned of_all = filter_outcomes(code, length, {0, false}, states);
  if (of_all & kFilterOther) return false;
  for (unsigned number = 0; number < kCallCount; number++)
    if (must_be_allowed(number) && filter_outcomes(code, length, {number, true}, states) != kFilterAllows) return false;
  return true;
}

// The struct sock_fprog that a call installs as a filter; 0: it installs none, or another process shall decide.
uint64_t program_of(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == sys::prctl) return a[0] == PR_SET_SECCOMP && a[1] == SECCOMP_MODE_FILTER ? a[2] : 0;
  constexpr uint64_t kPlain = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG | SECCOMP_FILTER_FLAG_SPEC_ALLOW |
                              SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
  return a[0] == SECCOMP_SET_MODE_FILTER && !(a[1] & ~kPlain) ? a[2] : 0;
}

}  // namespace

bool filter_suits(const CallFrame* frame) {
  const uint64_t at = program_of(frame);
  sock_fprog program = {};
  if (!at || !probed([&] { memcpy(&program, (const void*)at, sizeof program); })) return false;
  if (program.len == 0 || program.len > BPF_MAXINSNS) return false;
  const uint64_t code_bytes = program.len * sizeof(sock_filter);
  const uint64_t bytes = page_up(code_bytes + program.len * sizeof(FilterState));
  const long room = native(sys::mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(room)) return false;
  sock_filter* const code = (sock_filter*)room;
  const bool suiting = probed([&] { memcpy(code, program.filter, code_bytes); }) &&
                       suits(code, program.len, (FilterState*)((uint64_t)room + code_bytes));
  native(sys::munmap, room, bytes);
  return suiting;
}

}  // namespace friday::shim
