#include "core/infer/solver/confinement.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace friday::infer {
namespace {

// Calls of the C library, of the heap and of Z3's thread that watches the time.
constexpr uint32_t kAllowed[] = {
    SYS_munmap,       SYS_mremap,        SYS_madvise,         SYS_brk,
    SYS_futex,        SYS_exit,          SYS_exit_group,      SYS_set_robust_list,
    SYS_rseq,         SYS_clock_gettime, SYS_clock_nanosleep, SYS_gettimeofday,
    SYS_sched_yield,  SYS_getpid,        SYS_gettid,          SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_getrusage,     SYS_restart_syscall,
};

class CallFilter {
 public:
  CallFilter() {
    load(offsetof(seccomp_data, arch));
    jump_if(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
    give(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
  }
  void allow(uint32_t call) {
    jump_if(BPF_JEQ, call, 0, 1);
    give(SECCOMP_RET_ALLOW);
  }
  // If the lower half of this argument is one of these values.
  void allow_if_argument(uint32_t call, unsigned argument, std::initializer_list<int> values) {
    jump_if(BPF_JEQ, call, 0, static_cast<uint8_t>(2 + 2 * values.size()));
    load_argument(argument);
    for (const int value : values) {
      jump_if(BPF_JEQ, static_cast<uint32_t>(value), 0, 1);
      give(SECCOMP_RET_ALLOW);
    }
    give(SECCOMP_RET_ERRNO | EPERM);
  }
  // If this argument has all bits of `bits`, or none of them.
  void allow_if_bits(uint32_t call, unsigned argument, uint32_t bits, bool wanted) {
    jump_if(BPF_JEQ, call, 0, 4);
    load_argument(argument);
    jump_if(BPF_JSET, bits, wanted ? 0 : 1, wanted ? 1 : 0);
    give(SECCOMP_RET_ALLOW);
    give(SECCOMP_RET_ERRNO | EPERM);
  }
  void refuse(uint32_t call, int error) {
    jump_if(BPF_JEQ, call, 0, 1);
    give(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error));
  }
  bool install() {
    give(SECCOMP_RET_ERRNO | EPERM);
    sock_fprog program{static_cast<unsigned short>(filter_.size()), filter_.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
  }

 private:
  void load(size_t offset) { filter_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))); }
  void load_argument(unsigned number) { load(offsetof(seccomp_data, args) + 8 * number); }
  void jump_if(uint16_t test, uint32_t value, uint8_t yes, uint8_t no) {
    filter_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, yes, no));
  }
  void give(uint32_t action) { filter_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }

  std::vector<sock_filter> filter_;
};

}  // namespace

bool confine(int socket, int memory) {
  CallFilter filter;
  for (const uint32_t call : kAllowed) filter.allow(call);
  filter.allow_if_argument(SYS_pread64, 0, {memory});
  for (const uint32_t call : {SYS_read, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg})
    filter.allow_if_argument(call, 0, {socket});
  filter.allow_if_argument(SYS_write, 0, {socket, STDERR_FILENO});
  filter.allow_if_argument(SYS_writev, 0, {STDERR_FILENO});
  filter.allow_if_bits(SYS_mmap, 2, PROT_EXEC, false);
  filter.allow_if_bits(SYS_mprotect, 2, PROT_EXEC, false);
  filter.allow_if_bits(SYS_clone, 0, CLONE_THREAD, true);
  filter.refuse(SYS_clone3, ENOSYS);  // whose arguments cannot be looked at; the C library then uses clone
  filter.allow_if_argument(SYS_tgkill, 0, {getpid()});  // abort()
  return filter.install();
}

}  // namespace friday::infer
