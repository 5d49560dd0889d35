#include "core/mi/confinement.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/check.h"
#include "core/base/seccomp.h"

namespace friday {
namespace {

// struct landlock_ruleset_attr of kernel versions that the installed headers may not know
// (include/uapi/linux/landlock.h).
struct RulesetAttributes {
  uint64_t files, network, scoped;
};
enum : uint64_t {
  kWriteFile = 1 << 1,
  kRemoveDirectory = 1 << 4,
  kRemoveFile = 1 << 5,
  kMakeAny = 0x7f << 6,
  kRefer = 1 << 13,
  kTruncate = 1 << 14,
  kDeviceIoctl = 1 << 15,
  kConnectAndBind = 3,
  kAbstractSockets = 1,
  kSignals = 2,
};

constexpr size_t kMostInstructions = 256;

constexpr uint32_t kRefused[] = {
    // Access to other processes.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    SYS_pidfd_getfd,
    SYS_process_madvise,
    SYS_kcmp,
    // Large attack surfaces of the kernel.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_modify_ldt,
    SYS_open_by_handle_at,
    SYS_setns,
    SYS_unshare,
    // Administration of the machine.
    SYS_mount,
    SYS_umount2,
    SYS_fsopen,
    SYS_fsmount,
    SYS_fsconfig,
    SYS_move_mount,
    SYS_open_tree,
    SYS_mount_setattr,
    SYS_pivot_root,
    SYS_chroot,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_iopl,
    SYS_ioperm,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
};

// Builds the filter. `own` receives the indices of the instructions that must compare with gdb's own pid, which is
// known only after fork.
std::vector<sock_filter> gdb_filter(std::vector<size_t>& own) {
  constexpr uint32_t kX32 = 0x40000000, kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                                      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  SeccompProgram p(SECCOMP_RET_ERRNO | EPERM);
  p.load_call();
  p.refuse_if_any(kX32);
  for (uint32_t call : kRefused) p.refuse_if(call);
  // Allow gdb to send a signal to itself: it reports an internal error and then calls abort(3).
  for (uint32_t call : {SYS_kill, SYS_tgkill})
    p.only_for(call, [&] {
      p.load_low(0);
      own.push_back(p.size());
      p.allow_if(0);
      p.refuse();
    });
  for (uint32_t call : {SYS_socket, SYS_socketpair})
    p.only_for(call, [&] {
      p.load_low(0);
      p.allow_if(AF_UNIX);  // for the endpoint of its node
      p.refuse_with(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    });
  // Refuse ioctls that insert input into the terminal as if the user had typed it.
  p.only_for(SYS_ioctl, [&] {
    p.load_low(1);
    p.refuse_if(TIOCSTI);
    p.refuse_if(TIOCLINUX);
    p.allow();
  });
  p.only_for(SYS_clone, [&] {
    p.load_low(0);
    p.refuse_if_any(kNamespaces);
    p.allow();
  });
  // A filter cannot examine clone3's flags, which are in memory. After ENOSYS the C library calls clone.
  p.only_for(SYS_clone3, [&] { p.refuse_with(SECCOMP_RET_ERRNO | ENOSYS); });
  p.allow();
  FRIDAY_CHECK(p.size() <= kMostInstructions) << p.size();
  return p.take();
}

void allow_below(int rules, const std::string& directory, uint64_t rights) {
  // Do not follow a link, which would grant access to another directory.
  UniqueFd place(open(directory.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!place) return;
  const landlock_path_beneath_attr below{rights, place.get()};
  (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
}

UniqueFd landlock_rules(const std::string& scratch) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return {};
  uint64_t changes = kWriteFile | kRemoveDirectory | kRemoveFile | kMakeAny;
  if (version >= 2) changes |= kRefer;
  if (version >= 3) changes |= kTruncate;
  if (version >= 5) changes |= kDeviceIoctl;
  const RulesetAttributes wanted{changes, kConnectAndBind, kAbstractSockets | kSignals};
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  UniqueFd rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &wanted, size, 0)));
  if (!rules) return {};
  allow_below(rules.get(), "/dev/null", changes & (kWriteFile | kTruncate | kDeviceIoctl));
  if (!scratch.empty()) allow_below(rules.get(), scratch, changes & ~(kDeviceIoctl | kRefer));
  return rules;
}

}  // namespace

GdbConfinement GdbConfinement::prepare(const std::string& scratch) {
  GdbConfinement confinement;
  confinement.filter_ = gdb_filter(confinement.own_);
  confinement.rules_ = landlock_rules(scratch);
  confinement.memory_ = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return confinement;
}

void GdbConfinement::apply() const {
  // RLIMIT_DATA limits gdb's own memory; files that it maps do not count.
  constexpr rlimit kNone{0, 0};
  const rlimit memory{memory_, memory_};
  setrlimit(RLIMIT_CORE, &kNone);
  setrlimit(RLIMIT_DATA, &memory);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (rules_) (void)syscall(SYS_landlock_restrict_self, rules_.get(), 0);
  sock_filter filter[kMostInstructions];
  std::ranges::copy(filter_, filter);
  for (size_t at : own_) filter[at].k = static_cast<uint32_t>(getpid());
  const sock_fprog program{static_cast<unsigned short>(filter_.size()), filter};
  (void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

}  // namespace friday
