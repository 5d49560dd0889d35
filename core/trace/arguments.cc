#include "core/trace/arguments.h"

#include <fcntl.h>

#include <asm/ptrace.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "core/trace/calls.h"
#include "core/trace/named.h"

namespace friday {
namespace {

#define NAMED FRIDAY_NAMED

// How an argument is written. `field` is the part of the value that is one of several numbers, such as the access mode
// of open(2); the rest is a set of bits.
struct Words {
  uint64_t field;
  std::span<const Named> numbers, bits;
};

// clang-format off
constexpr uint64_t kWhole = ~uint64_t{0};
constexpr uint64_t kLargeFile = 0100000;  // O_LARGEFILE of the kernel, which <fcntl.h> shows 64-bit programs as 0
constexpr Named kAccessModes[] = {NAMED(O_RDONLY), NAMED(O_WRONLY), NAMED(O_RDWR)};
constexpr Named kOpenBits[] = {NAMED(O_CREAT), NAMED(O_EXCL), NAMED(O_NOCTTY), NAMED(O_TRUNC), NAMED(O_APPEND), NAMED(O_NONBLOCK), NAMED(O_SYNC), NAMED(O_DSYNC),
    NAMED(O_ASYNC), NAMED(O_DIRECT), NAMED(O_TMPFILE), NAMED(O_DIRECTORY), NAMED(O_NOFOLLOW), NAMED(O_NOATIME), NAMED(O_CLOEXEC), NAMED(O_PATH), {kLargeFile, "O_LARGEFILE"}};
constexpr Named kAt[] = {NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_SYMLINK_FOLLOW), NAMED(AT_NO_AUTOMOUNT), NAMED(AT_EMPTY_PATH), NAMED(AT_STATX_FORCE_SYNC), NAMED(AT_STATX_DONT_SYNC)};
constexpr Named kUnlinkAt[] = {NAMED(AT_REMOVEDIR)};
constexpr Named kAccessAt[] = {NAMED(AT_EACCESS), NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_EMPTY_PATH)};
constexpr Named kAccessZero[] = {NAMED(F_OK)};
constexpr Named kAccess[] = {NAMED(R_OK), NAMED(W_OK), NAMED(X_OK)};
constexpr Named kRename[] = {NAMED(RENAME_NOREPLACE), NAMED(RENAME_EXCHANGE), NAMED(RENAME_WHITEOUT)};
constexpr Named kWhence[] = {NAMED(SEEK_SET), NAMED(SEEK_CUR), NAMED(SEEK_END), NAMED(SEEK_DATA), NAMED(SEEK_HOLE)};
constexpr Named kFallocate[] = {NAMED(FALLOC_FL_KEEP_SIZE), NAMED(FALLOC_FL_PUNCH_HOLE), NAMED(FALLOC_FL_COLLAPSE_RANGE), NAMED(FALLOC_FL_ZERO_RANGE), NAMED(FALLOC_FL_INSERT_RANGE)};
constexpr Named kFlock[] = {NAMED(LOCK_SH), NAMED(LOCK_EX), NAMED(LOCK_UN)};
constexpr Named kFlockBits[] = {NAMED(LOCK_NB)};
constexpr Named kFcntl[] = {NAMED(F_DUPFD), NAMED(F_GETFD), NAMED(F_SETFD), NAMED(F_GETFL), NAMED(F_SETFL), NAMED(F_GETLK), NAMED(F_SETLK), NAMED(F_SETLKW), NAMED(F_SETOWN),
    NAMED(F_GETOWN), NAMED(F_SETSIG), NAMED(F_GETSIG), NAMED(F_SETOWN_EX), NAMED(F_GETOWN_EX), NAMED(F_OFD_GETLK), NAMED(F_OFD_SETLK), NAMED(F_OFD_SETLKW), NAMED(F_SETLEASE),
    NAMED(F_GETLEASE), NAMED(F_NOTIFY), NAMED(F_DUPFD_CLOEXEC), NAMED(F_SETPIPE_SZ), NAMED(F_GETPIPE_SZ), NAMED(F_ADD_SEALS), NAMED(F_GET_SEALS)};
constexpr Named kDescriptorFlags[] = {NAMED(FD_CLOEXEC)};
constexpr Named kRequests[] = {NAMED(TCGETS), NAMED(TCSETS), NAMED(TCSETSW), NAMED(TCSETSF), NAMED(TCSBRK), NAMED(TCFLSH), NAMED(TIOCGWINSZ), NAMED(TIOCSWINSZ), NAMED(TIOCGPGRP), NAMED(TIOCSPGRP),
    NAMED(TIOCSCTTY), NAMED(TIOCNOTTY), NAMED(TIOCGPTN), NAMED(TIOCSPTLCK), NAMED(TIOCOUTQ), NAMED(FIONREAD), NAMED(FIONBIO), NAMED(FIOASYNC), NAMED(FIOCLEX), NAMED(FIONCLEX)};
constexpr Named kProtectionNone[] = {NAMED(PROT_NONE)};
constexpr Named kProtection[] = {NAMED(PROT_READ), NAMED(PROT_WRITE), NAMED(PROT_EXEC), NAMED(PROT_GROWSDOWN), NAMED(PROT_GROWSUP)};
constexpr Named kMapTypes[] = {NAMED(MAP_SHARED), NAMED(MAP_PRIVATE), NAMED(MAP_SHARED_VALIDATE)};
constexpr Named kMapBits[] = {NAMED(MAP_FIXED), NAMED(MAP_ANONYMOUS), NAMED(MAP_GROWSDOWN), NAMED(MAP_DENYWRITE), NAMED(MAP_EXECUTABLE), NAMED(MAP_LOCKED), NAMED(MAP_NORESERVE), NAMED(MAP_POPULATE),
    NAMED(MAP_NONBLOCK), NAMED(MAP_STACK), NAMED(MAP_HUGETLB), NAMED(MAP_SYNC), NAMED(MAP_FIXED_NOREPLACE)};
constexpr Named kRemap[] = {NAMED(MREMAP_MAYMOVE), NAMED(MREMAP_FIXED), NAMED(MREMAP_DONTUNMAP)};
constexpr Named kAdvice[] = {NAMED(MADV_NORMAL), NAMED(MADV_RANDOM), NAMED(MADV_SEQUENTIAL), NAMED(MADV_WILLNEED), NAMED(MADV_DONTNEED), NAMED(MADV_FREE), NAMED(MADV_REMOVE), NAMED(MADV_DONTFORK),
    NAMED(MADV_DOFORK), NAMED(MADV_MERGEABLE), NAMED(MADV_UNMERGEABLE), NAMED(MADV_HUGEPAGE), NAMED(MADV_NOHUGEPAGE), NAMED(MADV_DONTDUMP), NAMED(MADV_DODUMP), NAMED(MADV_WIPEONFORK),
    NAMED(MADV_KEEPONFORK), NAMED(MADV_COLD), NAMED(MADV_PAGEOUT), NAMED(MADV_POPULATE_READ), NAMED(MADV_POPULATE_WRITE)};
constexpr Named kSync[] = {NAMED(MS_ASYNC), NAMED(MS_INVALIDATE), NAMED(MS_SYNC)};
constexpr Named kLockAll[] = {NAMED(MCL_CURRENT), NAMED(MCL_FUTURE), NAMED(MCL_ONFAULT)};
constexpr Named kMemoryFile[] = {NAMED(MFD_CLOEXEC), NAMED(MFD_ALLOW_SEALING), NAMED(MFD_HUGETLB)};
constexpr Named kFamilies[] = {NAMED(AF_UNSPEC), NAMED(AF_UNIX), NAMED(AF_INET), NAMED(AF_INET6), NAMED(AF_NETLINK), NAMED(AF_PACKET), NAMED(AF_VSOCK)};
constexpr Named kSocketTypes[] = {NAMED(SOCK_STREAM), NAMED(SOCK_DGRAM), NAMED(SOCK_RAW), NAMED(SOCK_SEQPACKET)};
constexpr Named kSocketBits[] = {NAMED(SOCK_CLOEXEC), NAMED(SOCK_NONBLOCK)};
constexpr Named kProtocols[] = {NAMED(IPPROTO_IP), NAMED(IPPROTO_ICMP), NAMED(IPPROTO_TCP), NAMED(IPPROTO_UDP), NAMED(IPPROTO_ICMPV6), NAMED(IPPROTO_RAW), NAMED(IPPROTO_SCTP)};
constexpr Named kLevels[] = {NAMED(SOL_SOCKET), NAMED(IPPROTO_IP), NAMED(IPPROTO_TCP), NAMED(IPPROTO_UDP), NAMED(IPPROTO_IPV6)};
constexpr Named kSocketOptions[] = {NAMED(SO_DEBUG), NAMED(SO_REUSEADDR), NAMED(SO_TYPE), NAMED(SO_ERROR), NAMED(SO_DONTROUTE), NAMED(SO_BROADCAST), NAMED(SO_SNDBUF), NAMED(SO_RCVBUF), NAMED(SO_KEEPALIVE),
    NAMED(SO_OOBINLINE), NAMED(SO_PRIORITY), NAMED(SO_LINGER), NAMED(SO_REUSEPORT), NAMED(SO_PASSCRED), NAMED(SO_PEERCRED), NAMED(SO_RCVLOWAT), NAMED(SO_SNDLOWAT), NAMED(SO_RCVTIMEO), NAMED(SO_SNDTIMEO),
    NAMED(SO_BINDTODEVICE), NAMED(SO_ATTACH_FILTER), NAMED(SO_TIMESTAMP), NAMED(SO_ACCEPTCONN), NAMED(SO_SNDBUFFORCE), NAMED(SO_RCVBUFFORCE), NAMED(SO_MARK), NAMED(SO_PROTOCOL), NAMED(SO_DOMAIN), NAMED(SO_BUSY_POLL),
    NAMED(SO_INCOMING_CPU), NAMED(SO_ZEROCOPY)};
constexpr Named kTcpOptions[] = {NAMED(TCP_NODELAY), NAMED(TCP_MAXSEG), NAMED(TCP_CORK), NAMED(TCP_KEEPIDLE), NAMED(TCP_KEEPINTVL), NAMED(TCP_KEEPCNT), NAMED(TCP_SYNCNT), NAMED(TCP_LINGER2), NAMED(TCP_DEFER_ACCEPT),
    NAMED(TCP_WINDOW_CLAMP), NAMED(TCP_INFO), NAMED(TCP_QUICKACK), NAMED(TCP_CONGESTION), NAMED(TCP_USER_TIMEOUT), NAMED(TCP_FASTOPEN)};
constexpr Named kIpOptions[] = {NAMED(IP_TOS), NAMED(IP_TTL), NAMED(IP_PKTINFO), NAMED(IP_RECVERR), NAMED(IP_MTU_DISCOVER), NAMED(IP_MTU), NAMED(IP_TRANSPARENT), NAMED(IP_MULTICAST_IF), NAMED(IP_MULTICAST_TTL),
    NAMED(IP_MULTICAST_LOOP), NAMED(IP_ADD_MEMBERSHIP), NAMED(IP_DROP_MEMBERSHIP)};
constexpr Named kIp6Options[] = {NAMED(IPV6_V6ONLY), NAMED(IPV6_UNICAST_HOPS), NAMED(IPV6_MULTICAST_IF), NAMED(IPV6_MULTICAST_HOPS), NAMED(IPV6_MULTICAST_LOOP), NAMED(IPV6_JOIN_GROUP), NAMED(IPV6_LEAVE_GROUP),
    NAMED(IPV6_RECVPKTINFO), NAMED(IPV6_RECVERR), NAMED(IPV6_TCLASS)};
constexpr Named kMessageBits[] = {NAMED(MSG_OOB), NAMED(MSG_PEEK), NAMED(MSG_DONTROUTE), NAMED(MSG_TRUNC), NAMED(MSG_DONTWAIT), NAMED(MSG_EOR), NAMED(MSG_WAITALL), NAMED(MSG_CONFIRM), NAMED(MSG_ERRQUEUE),
    NAMED(MSG_NOSIGNAL), NAMED(MSG_MORE), NAMED(MSG_WAITFORONE), NAMED(MSG_ZEROCOPY), NAMED(MSG_FASTOPEN), NAMED(MSG_CMSG_CLOEXEC)};
constexpr Named kShutdown[] = {NAMED(SHUT_RD), NAMED(SHUT_WR), NAMED(SHUT_RDWR)};
constexpr Named kEpoll[] = {NAMED(EPOLL_CTL_ADD), NAMED(EPOLL_CTL_MOD), NAMED(EPOLL_CTL_DEL)};
constexpr Named kEpollCreate[] = {NAMED(EPOLL_CLOEXEC)};
constexpr Named kEventfd[] = {NAMED(EFD_SEMAPHORE), NAMED(EFD_CLOEXEC), NAMED(EFD_NONBLOCK)};
constexpr Named kTimerfd[] = {NAMED(TFD_CLOEXEC), NAMED(TFD_NONBLOCK)};
constexpr Named kTimerfdSet[] = {NAMED(TFD_TIMER_ABSTIME), NAMED(TFD_TIMER_CANCEL_ON_SET)};
constexpr Named kAbsolute[] = {NAMED(TIMER_ABSTIME)};
constexpr Named kSplice[] = {NAMED(SPLICE_F_MOVE), NAMED(SPLICE_F_NONBLOCK), NAMED(SPLICE_F_MORE), NAMED(SPLICE_F_GIFT)};
constexpr Named kReadWrite[] = {NAMED(RWF_HIPRI), NAMED(RWF_DSYNC), NAMED(RWF_SYNC), NAMED(RWF_NOWAIT), NAMED(RWF_APPEND)};
constexpr Named kRandom[] = {NAMED(GRND_NONBLOCK), NAMED(GRND_RANDOM)};
constexpr Named kClocks[] = {NAMED(CLOCK_REALTIME), NAMED(CLOCK_MONOTONIC), NAMED(CLOCK_PROCESS_CPUTIME_ID), NAMED(CLOCK_THREAD_CPUTIME_ID), NAMED(CLOCK_MONOTONIC_RAW), NAMED(CLOCK_REALTIME_COARSE),
    NAMED(CLOCK_MONOTONIC_COARSE), NAMED(CLOCK_BOOTTIME), NAMED(CLOCK_REALTIME_ALARM), NAMED(CLOCK_BOOTTIME_ALARM), NAMED(CLOCK_TAI)};
constexpr Named kTimers[] = {NAMED(ITIMER_REAL), NAMED(ITIMER_VIRTUAL), NAMED(ITIMER_PROF)};
constexpr Named kFutex[] = {NAMED(FUTEX_WAIT), NAMED(FUTEX_WAKE), NAMED(FUTEX_FD), NAMED(FUTEX_REQUEUE), NAMED(FUTEX_CMP_REQUEUE), NAMED(FUTEX_WAKE_OP), NAMED(FUTEX_LOCK_PI), NAMED(FUTEX_UNLOCK_PI), NAMED(FUTEX_TRYLOCK_PI),
    NAMED(FUTEX_WAIT_BITSET), NAMED(FUTEX_WAKE_BITSET), NAMED(FUTEX_WAIT_REQUEUE_PI), NAMED(FUTEX_CMP_REQUEUE_PI), NAMED(FUTEX_LOCK_PI2)};
constexpr Named kFutexBits[] = {NAMED(FUTEX_PRIVATE_FLAG), NAMED(FUTEX_CLOCK_REALTIME)};
constexpr Named kMaskHow[] = {NAMED(SIG_BLOCK), NAMED(SIG_UNBLOCK), NAMED(SIG_SETMASK)};
constexpr Named kCloneBits[] = {NAMED(CLONE_VM), NAMED(CLONE_FS), NAMED(CLONE_FILES), NAMED(CLONE_SIGHAND), NAMED(CLONE_PIDFD), NAMED(CLONE_PTRACE), NAMED(CLONE_VFORK), NAMED(CLONE_PARENT), NAMED(CLONE_THREAD), NAMED(CLONE_NEWNS),
    NAMED(CLONE_SYSVSEM), NAMED(CLONE_SETTLS), NAMED(CLONE_PARENT_SETTID), NAMED(CLONE_CHILD_CLEARTID), NAMED(CLONE_DETACHED), NAMED(CLONE_UNTRACED), NAMED(CLONE_CHILD_SETTID), NAMED(CLONE_NEWCGROUP), NAMED(CLONE_NEWUTS),
    NAMED(CLONE_NEWIPC), NAMED(CLONE_NEWUSER), NAMED(CLONE_NEWPID), NAMED(CLONE_NEWNET), NAMED(CLONE_IO)};
constexpr Named kWait[] = {NAMED(WNOHANG), NAMED(WUNTRACED), NAMED(WEXITED), NAMED(WCONTINUED), NAMED(WNOWAIT), {0x20000000, "__WNOTHREAD"}, {0x40000000, "__WALL"}, {0x80000000, "__WCLONE"}};
constexpr Named kWaitFor[] = {NAMED(P_ALL), NAMED(P_PID), NAMED(P_PGID), NAMED(P_PIDFD)};
constexpr Named kLimits[] = {NAMED(RLIMIT_CPU), NAMED(RLIMIT_FSIZE), NAMED(RLIMIT_DATA), NAMED(RLIMIT_STACK), NAMED(RLIMIT_CORE), NAMED(RLIMIT_RSS), NAMED(RLIMIT_NPROC), NAMED(RLIMIT_NOFILE), NAMED(RLIMIT_MEMLOCK), NAMED(RLIMIT_AS),
    NAMED(RLIMIT_LOCKS), NAMED(RLIMIT_SIGPENDING), NAMED(RLIMIT_MSGQUEUE), NAMED(RLIMIT_NICE), NAMED(RLIMIT_RTPRIO), NAMED(RLIMIT_RTTIME)};
constexpr Named kUsage[] = {NAMED(RUSAGE_SELF), NAMED(RUSAGE_THREAD), {static_cast<uint32_t>(RUSAGE_CHILDREN), "RUSAGE_CHILDREN"}};
constexpr Named kPriority[] = {NAMED(PRIO_PROCESS), NAMED(PRIO_PGRP), NAMED(PRIO_USER)};
constexpr Named kPolicies[] = {NAMED(SCHED_OTHER), NAMED(SCHED_FIFO), NAMED(SCHED_RR), NAMED(SCHED_BATCH), NAMED(SCHED_IDLE), NAMED(SCHED_DEADLINE)};
constexpr Named kPrctl[] = {NAMED(PR_SET_PDEATHSIG), NAMED(PR_GET_PDEATHSIG), NAMED(PR_GET_DUMPABLE), NAMED(PR_SET_DUMPABLE), NAMED(PR_GET_KEEPCAPS), NAMED(PR_SET_KEEPCAPS), NAMED(PR_SET_NAME), NAMED(PR_GET_NAME), NAMED(PR_GET_SECCOMP),
    NAMED(PR_SET_SECCOMP), NAMED(PR_CAPBSET_READ), NAMED(PR_CAPBSET_DROP), NAMED(PR_GET_TSC), NAMED(PR_SET_TSC), NAMED(PR_GET_SECUREBITS), NAMED(PR_SET_SECUREBITS), NAMED(PR_SET_TIMERSLACK), NAMED(PR_GET_TIMERSLACK), NAMED(PR_SET_MM),
    NAMED(PR_SET_PTRACER), NAMED(PR_SET_CHILD_SUBREAPER), NAMED(PR_GET_CHILD_SUBREAPER), NAMED(PR_SET_NO_NEW_PRIVS), NAMED(PR_GET_NO_NEW_PRIVS), NAMED(PR_SET_THP_DISABLE), NAMED(PR_GET_THP_DISABLE), NAMED(PR_CAP_AMBIENT), NAMED(PR_SET_SYSCALL_USER_DISPATCH), NAMED(PR_SET_VMA)};
constexpr Named kPtrace[] = {NAMED(PTRACE_TRACEME), NAMED(PTRACE_PEEKTEXT), NAMED(PTRACE_PEEKDATA), NAMED(PTRACE_PEEKUSR), NAMED(PTRACE_POKETEXT), NAMED(PTRACE_POKEDATA), NAMED(PTRACE_POKEUSR), NAMED(PTRACE_CONT), NAMED(PTRACE_KILL),
    NAMED(PTRACE_SINGLESTEP), NAMED(PTRACE_GETREGS), NAMED(PTRACE_SETREGS), NAMED(PTRACE_GETFPREGS), NAMED(PTRACE_SETFPREGS), NAMED(PTRACE_ATTACH), NAMED(PTRACE_DETACH), NAMED(PTRACE_SYSCALL), NAMED(PTRACE_ARCH_PRCTL),
    NAMED(PTRACE_SETOPTIONS), NAMED(PTRACE_GETEVENTMSG), NAMED(PTRACE_GETSIGINFO), NAMED(PTRACE_SETSIGINFO), NAMED(PTRACE_GETREGSET), NAMED(PTRACE_SETREGSET), NAMED(PTRACE_SEIZE), NAMED(PTRACE_INTERRUPT), NAMED(PTRACE_LISTEN),
    NAMED(PTRACE_PEEKSIGINFO), NAMED(PTRACE_GETSIGMASK), NAMED(PTRACE_SETSIGMASK), NAMED(PTRACE_SECCOMP_GET_FILTER), NAMED(PTRACE_GET_SYSCALL_INFO)};
// clang-format on

enum class Form : uint8_t {
  plain,    // what people may take for an address or a size: in decimal if it is small
  integer,  // an int: descriptors, processes, timeouts, counts
  octal,    // the mode of a file
  signal,
  directory,  // a descriptor, or AT_FDCWD
  protocol,   // of a socket of the family in argument 0
  option,     // of a socket, at the level in the argument before
  setting,    // what fcntl(2) sets, by the command in the argument before
  clone,      // flags, and the signal of the child's end in the lowest byte
  open,
  at,
  unlink_at,
  access_at,
  access,
  rename,
  whence,
  fallocate,
  flock,
  fcntl,
  request,
  protection,
  map,
  remap,
  advice,
  sync,
  lock_all,
  memory_file,
  family,
  socket_type,
  socket_bits,
  level,
  message,
  shutdown,
  epoll,
  epoll_create,
  eventfd,
  timerfd,
  timerfd_set,
  absolute,
  splice,
  read_write,
  random,
  clock,
  timer,
  futex,
  mask_how,
  wait,
  wait_for,
  limit,
  usage,
  priority,
  policy,
  prctl,
  ptrace,
  pipe,
  descriptor_flags,
};

Words words_of(Form form) {
  switch (form) {
    case Form::open: return {O_ACCMODE, kAccessModes, kOpenBits};
    case Form::pipe: return {0, {}, kOpenBits};
    case Form::at: return {0, {}, kAt};
    case Form::unlink_at: return {0, {}, kUnlinkAt};
    case Form::access_at: return {0, {}, kAccessAt};
    case Form::access: return {0, kAccessZero, kAccess};
    case Form::rename: return {0, {}, kRename};
    case Form::whence: return {kWhole, kWhence, {}};
    case Form::fallocate: return {0, {}, kFallocate};
    case Form::flock: return {~uint64_t{LOCK_NB}, kFlock, kFlockBits};
    case Form::fcntl: return {kWhole, kFcntl, {}};
    case Form::descriptor_flags: return {0, {}, kDescriptorFlags};
    case Form::request: return {kWhole, kRequests, {}};
    case Form::protection: return {0, kProtectionNone, kProtection};
    case Form::map: return {MAP_TYPE, kMapTypes, kMapBits};
    case Form::remap: return {0, {}, kRemap};
    case Form::advice: return {kWhole, kAdvice, {}};
    case Form::sync: return {0, {}, kSync};
    case Form::lock_all: return {0, {}, kLockAll};
    case Form::memory_file: return {0, {}, kMemoryFile};
    case Form::family: return {kWhole, kFamilies, {}};
    case Form::socket_type: return {0xf, kSocketTypes, kSocketBits};
    case Form::socket_bits: return {0, {}, kSocketBits};
    case Form::level: return {kWhole, kLevels, {}};
    case Form::message: return {0, {}, kMessageBits};
    case Form::shutdown: return {kWhole, kShutdown, {}};
    case Form::epoll: return {kWhole, kEpoll, {}};
    case Form::epoll_create: return {0, {}, kEpollCreate};
    case Form::eventfd: return {0, {}, kEventfd};
    case Form::timerfd: return {0, {}, kTimerfd};
    case Form::timerfd_set: return {0, {}, kTimerfdSet};
    case Form::absolute: return {0, {}, kAbsolute};
    case Form::splice: return {0, {}, kSplice};
    case Form::read_write: return {0, {}, kReadWrite};
    case Form::random: return {0, {}, kRandom};
    case Form::clock: return {kWhole, kClocks, {}};
    case Form::timer: return {kWhole, kTimers, {}};
    case Form::futex: return {static_cast<uint32_t>(FUTEX_CMD_MASK), kFutex, kFutexBits};
    case Form::mask_how: return {kWhole, kMaskHow, {}};
    case Form::wait: return {0, {}, kWait};
    case Form::wait_for: return {kWhole, kWaitFor, {}};
    case Form::limit: return {kWhole, kLimits, {}};
    case Form::usage: return {kWhole, kUsage, {}};
    case Form::priority: return {kWhole, kPriority, {}};
    case Form::policy: return {kWhole, kPolicies, {}};
    case Form::prctl: return {kWhole, kPrctl, {}};
    case Form::ptrace: return {kWhole, kPtrace, {}};
    default: return {0, {}, {}};
  }
}

using Forms = std::array<Form, 6>;

// What is not in this table is plain.
const std::unordered_map<std::string_view, Forms>& forms() {
  using enum Form;
  // clang-format off
  static const std::unordered_map<std::string_view, Forms> kForms = {
      {"read", {integer}}, {"write", {integer}}, {"close", {integer}}, {"fstat", {integer}}, {"readv", {integer}}, {"writev", {integer}},
      {"pread64", {integer}}, {"pwrite64", {integer}}, {"preadv", {integer}}, {"pwritev", {integer}},
      {"preadv2", {integer, plain, plain, plain, plain, read_write}}, {"pwritev2", {integer, plain, plain, plain, plain, read_write}},
      {"open", {plain, open, octal}}, {"openat", {directory, plain, open, octal}}, {"creat", {plain, octal}},
      {"access", {plain, access}}, {"faccessat", {directory, plain, access}}, {"faccessat2", {directory, plain, access, access_at}},
      {"newfstatat", {directory, plain, plain, at}}, {"statx", {directory, plain, at}}, {"readlinkat", {directory}}, {"unlinkat", {directory, plain, unlink_at}},
      {"mkdir", {plain, octal}}, {"mkdirat", {directory, plain, octal}}, {"chmod", {plain, octal}}, {"fchmod", {integer, octal}}, {"fchmodat", {directory, plain, octal}},
      {"umask", {octal}}, {"mknod", {plain, octal}}, {"mknodat", {directory, plain, octal}}, {"fchown", {integer, integer, integer}}, {"fchownat", {directory, plain, integer, integer, at}},
      {"renameat", {directory, plain, directory}}, {"renameat2", {directory, plain, directory, plain, rename}}, {"linkat", {directory, plain, directory, plain, at}}, {"symlinkat", {plain, directory}},
      {"utimensat", {directory, plain, plain, at}}, {"lseek", {integer, plain, whence}}, {"fallocate", {integer, fallocate}}, {"ftruncate", {integer}}, {"fsync", {integer}}, {"fdatasync", {integer}},
      {"flock", {integer, flock}}, {"fcntl", {integer, fcntl, setting}}, {"ioctl", {integer, request}}, {"dup", {integer}}, {"dup2", {integer, integer}}, {"dup3", {integer, integer, pipe}},
      {"pipe2", {plain, pipe}}, {"getdents64", {integer}}, {"sendfile", {integer, integer}}, {"splice", {integer, plain, integer, plain, plain, splice}}, {"tee", {integer, integer, plain, splice}},
      {"vmsplice", {integer, plain, plain, splice}}, {"copy_file_range", {integer, plain, integer}}, {"memfd_create", {plain, memory_file}},
      {"mmap", {plain, plain, protection, map, integer}}, {"mprotect", {plain, plain, protection}}, {"mremap", {plain, plain, plain, remap}}, {"madvise", {plain, plain, advice}},
      {"msync", {plain, plain, sync}}, {"mlockall", {lock_all}},
      {"socket", {family, socket_type, protocol}}, {"socketpair", {family, socket_type, protocol}}, {"bind", {integer}}, {"connect", {integer}}, {"listen", {integer, integer}},
      {"accept", {integer}}, {"accept4", {integer, plain, plain, socket_bits}}, {"getsockname", {integer}}, {"getpeername", {integer}}, {"shutdown", {integer, shutdown}},
      {"setsockopt", {integer, level, option}}, {"getsockopt", {integer, level, option}}, {"sendto", {integer, plain, plain, message}}, {"recvfrom", {integer, plain, plain, message}},
      {"sendmsg", {integer, plain, message}}, {"recvmsg", {integer, plain, message}}, {"sendmmsg", {integer, plain, plain, message}}, {"recvmmsg", {integer, plain, plain, message}},
      {"poll", {plain, integer, integer}}, {"select", {integer}}, {"pselect6", {integer}}, {"ppoll", {plain, integer}}, {"epoll_create1", {epoll_create}}, {"epoll_ctl", {integer, epoll, integer}},
      {"epoll_wait", {integer, plain, integer, integer}}, {"epoll_pwait", {integer, plain, integer, integer}}, {"epoll_pwait2", {integer, plain, integer}},
      {"eventfd2", {integer, eventfd}}, {"timerfd_create", {clock, timerfd}}, {"timerfd_settime", {integer, timerfd_set}}, {"timerfd_gettime", {integer}}, {"signalfd4", {integer, plain, plain, timerfd}},
      {"clock_gettime", {clock}}, {"clock_getres", {clock}}, {"clock_settime", {clock}}, {"clock_nanosleep", {clock, absolute}}, {"timer_create", {clock}}, {"timer_settime", {integer, absolute}},
      {"setitimer", {timer}}, {"getitimer", {timer}}, {"futex", {plain, futex}}, {"getrandom", {plain, plain, random}},
      {"kill", {integer, signal}}, {"tkill", {integer, signal}}, {"tgkill", {integer, integer, signal}}, {"rt_sigqueueinfo", {integer, signal}}, {"rt_tgsigqueueinfo", {integer, integer, signal}},
      {"pidfd_send_signal", {integer, signal}}, {"rt_sigaction", {signal}}, {"rt_sigprocmask", {mask_how}}, {"clone", {Form::clone}}, {"wait4", {integer, plain, wait}}, {"waitid", {wait_for, integer, plain, wait}},
      {"exit", {integer}}, {"exit_group", {integer}}, {"getrlimit", {limit}}, {"setrlimit", {limit}}, {"prlimit64", {integer, limit}}, {"getrusage", {usage}}, {"getpriority", {priority, integer}},
      {"setpriority", {priority, integer, integer}}, {"sched_setscheduler", {integer, policy}}, {"prctl", {prctl}}, {"ptrace", {ptrace, integer}}, {"setpgid", {integer, integer}}, {"getpgid", {integer}},
  };
  // clang-format on
  return kForms;
}

std::string plain_text(uint64_t value) {
  const auto signed_value = static_cast<int64_t>(value);
  return signed_value >= -4096 && signed_value < 65536 ? fmt::format("{}", signed_value) : fmt::format("{:#x}", value);
}

// Programs leave anything in the upper half of a register whose lower half is an int.
std::string integer_text(uint64_t value) {
  const uint64_t upper = value >> 32;
  const auto number = static_cast<int32_t>(value);
  const bool is_int = upper == 0 || (upper == 0xffffffff && number < 0);
  return is_int ? fmt::format("{}", number) : plain_text(value);
}

std::string words_text(const Words& words, uint64_t value) {
  std::string text;
  auto add = [&](std::string_view word) { text += (text.empty() ? "" : "|") + std::string(word); };
  uint64_t rest = value & ~words.field;
  if (words.field || value == 0) {
    if (const auto name = name_of(words.numbers, value & words.field); !name.empty()) add(name);
    else if (value & words.field) rest = value;
  }
  if (rest == value && words.field == kWhole && text.empty()) return integer_text(value);
  for (const Named& bit : words.bits)
    if (bit.value && (rest & bit.value) == bit.value) {
      add(bit.name);
      rest &= ~bit.value;
    }
  if (rest) add(fmt::format("{:#x}", rest));
  return text.empty() ? "0" : text;
}

std::span<const Named> options_at(uint64_t level) {
  switch (level) {
    case SOL_SOCKET: return kSocketOptions;
    case IPPROTO_TCP: return kTcpOptions;
    case IPPROTO_IP: return kIpOptions;
    case IPPROTO_IPV6: return kIp6Options;
    default: return {};
  }
}

std::string clone_text(uint64_t value) {
  const uint64_t signal = value & 0xff;
  std::string text = words_text({0, {}, kCloneBits}, value & ~uint64_t{0xff});
  if (signal) text = (text == "0" ? "" : text + "|") + signal_text(static_cast<int>(signal));
  return text;
}

std::string setting_text(uint64_t command, uint64_t value) {
  switch (command) {
    case F_SETFL: return words_text(words_of(Form::open), value);
    case F_SETFD: return words_text(words_of(Form::descriptor_flags), value);
    default: return plain_text(value);
  }
}

}  // namespace

std::string argument_text(unsigned call, unsigned index, std::span<const uint64_t> arguments) {
  const uint64_t value = arguments[index];
  const auto known = forms().find(call_name(call));
  const Form form = known == forms().end() || index >= known->second.size() ? Form::plain : known->second[index];
  switch (form) {
    case Form::plain: return plain_text(value);
    case Form::integer: return integer_text(value);
    case Form::octal: return value <= 07777 ? fmt::format("{:#o}", value) : plain_text(value);
    case Form::signal: return value >= 1 && value <= 64 ? signal_text(static_cast<int>(value)) : integer_text(value);
    case Form::directory: return static_cast<int32_t>(value) == AT_FDCWD ? "AT_FDCWD" : integer_text(value);
    case Form::protocol: {
      const bool is_inet = arguments[0] == AF_INET || arguments[0] == AF_INET6;
      return is_inet ? words_text({kWhole, kProtocols, {}}, value) : integer_text(value);
    }
    case Form::option: return words_text({kWhole, options_at(arguments[index - 1]), {}}, value);
    case Form::setting: return setting_text(arguments[index - 1], value);
    case Form::clone: return clone_text(value);
    default: return words_text(words_of(form), value);
  }
}

}  // namespace friday
