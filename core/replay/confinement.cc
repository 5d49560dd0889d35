#include "core/replay/confinement.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/seccomp.h"
#include "core/trace/event_text.h"

namespace friday {
namespace {

constexpr int kSysSeccomp = 1;         // the si_code SYS_SECCOMP, which glibc's headers lack
constexpr uint32_t kX32 = 0x40000000;  // __X32_SYSCALL_BIT: set in call numbers of the x32 table
constexpr rlim_t kMostDescriptors = 128;

// Calls that are allowed with any arguments; the most frequent ones first.
constexpr uint32_t kAllowed[] = {
    SYS_futex,           SYS_mmap,         SYS_munmap,         SYS_mprotect,     SYS_mremap,
    SYS_madvise,         SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sigaltstack,
    SYS_restart_syscall, SYS_brk,          SYS_close,          SYS_read,         SYS_fstat,
    SYS_ftruncate,       SYS_pwrite64,     SYS_arch_prctl,     SYS_gettid,       SYS_getpid,
    SYS_getrlimit,       SYS_personality,  SYS_exit,
};
// Calls that are allowed with some arguments only.
constexpr uint32_t kChecked[] = {SYS_clone, SYS_prctl, SYS_setrlimit, SYS_fallocate, SYS_recvmsg};

// Flags of clone(2) that are refused for threads and processes alike, but for kTwinFlags as a whole.
constexpr uint32_t kNeverCloned = CLONE_UNTRACED | CLONE_PTRACE | CLONE_PIDFD | CLONE_VFORK | CLONE_PARENT |
                                  CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                  CLONE_NEWPID | CLONE_NEWNET;

}  // namespace

std::vector<sock_filter> replay_filter(int channel) {
  SeccompProgram p(SECCOMP_RET_TRAP);
  p.load_call();
  for (uint32_t call : kAllowed) p.allow_if(call);
  p.only_for(SYS_clone, [&] {
    p.load_high(0);
    p.refuse_unless(0);
    p.load_low(0);
    p.allow_if(kTwinFlags);
    p.refuse_if_any(kNeverCloned);
    p.allow_if_any(CLONE_THREAD);
    p.refuse_if_any(~uint32_t{CSIGNAL});
    p.allow();
  });
  p.only_for(SYS_prctl, [&] {
    p.load_low(0);
    p.allow_if(PR_SET_NAME);
    p.allow_if(PR_SET_SYSCALL_USER_DISPATCH);
    p.refuse();
  });
  p.only_for(SYS_setrlimit, [&] {
    p.load_low(0);
    p.allow_if(RLIMIT_STACK);
    p.refuse();
  });
  p.only_for(SYS_fallocate, [&] {
    p.load_low(1);
    p.allow_if(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    p.refuse();
  });
  p.only_for(SYS_recvmsg, [&] {
    p.load_low(0);
    p.refuse_unless(static_cast<uint32_t>(channel));
    p.load_low(2);
    p.allow_if(MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    p.refuse();
  });
  p.allow_if(~0u);  // kNoCall: the core has cancelled the call (calls.cc)
  p.refuse();
  return p.take();
}

bool may_pass_filter(uint64_t call) {
  auto in = [call](const auto& list) { return std::ranges::find(list, call) != std::end(list); };
  return in(kAllowed) || in(kChecked);
}

// A process can be cloned with SIGSYS as its exit signal. The parent then gets a SIGSYS with the same si_code
// (CLD_EXITED), but si_arch is 0.
bool is_refused_call(const siginfo_t& info) {
  return info.si_signo == SIGSYS && info.si_code == kSysSeccomp && info.si_arch != 0;
}

bool is_call_here(const siginfo_t& info, int call) {
  return info.si_arch == AUDIT_ARCH_X86_64 && info.si_syscall == call;
}

std::string describe_refused_call(const siginfo_t& info, const user_regs_struct& r) {
  const auto number = static_cast<uint32_t>(info.si_syscall);
  if (info.si_arch != AUDIT_ARCH_X86_64) return fmt::format("the 32-bit system call {}", number);
  const uint64_t arguments[] = {r.rdi, r.rsi, r.rdx};
  return fmt::format("the system call {}{}", call_with_arguments(number & ~kX32, arguments),
                     number & kX32 ? " by its number in the x32 table" : "");
}

void give_up_rights() {
  constexpr char kFirst[] = "1000";
  if (const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    // Some containers do not allow this. The replay is still correct then, so the result does not matter.
    [[maybe_unused]] const ssize_t written = write(fd, kFirst, sizeof kFirst - 1);
    close(fd);
  }
  constexpr rlimit kNone{0, 0}, kFew{kMostDescriptors, kMostDescriptors};
  setrlimit(RLIMIT_CORE, &kNone);
  setrlimit(RLIMIT_NOFILE, &kFew);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

}  // namespace friday
