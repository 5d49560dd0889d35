// Hands to as many calls as it can, in the memory that each reads, one byte that it has just read from a file: tests/e2e/test_inputs.py
// changes that byte behind the program's back, and each call must be found to read something else. Most calls fail, which is no matter.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <ucontext.h>

#include "check.h"

enum { kSeed = 77 };

static unsigned char room[8192] __attribute__((aligned(64)));

static unsigned char next(void) {
  unsigned char byte = 9;
  CHECK(syscall(SYS_read, kSeed, &byte, 1) == 1);
  return byte;
}

// Zeros, but for the byte at `at`.
static void* bytes(unsigned at) {
  memset(room, 0, sizeof room);
  room[at] = next();
  return room;
}

// A text that begins with the byte, or one behind it.
static char* text(void) {
  memset(room, 0, sizeof room);
  strcpy((char*)room, "no-such-thing");
  room[0] = (unsigned char)('a' + next());
  return (char*)room;
}

static const char kNowhere[] = "/no/such/place";

static void signals(void) {
  syscall(SYS_rt_sigaction, SIGUSR2, bytes(24), NULL, 8);
  syscall(SYS_rt_sigaction, SIGUSR2, bytes(8), NULL, 8);
  signal(SIGUSR2, SIG_IGN);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, bytes(1), NULL, 8);
  syscall(SYS_sigaltstack, bytes(16), NULL);
  siginfo_t info = {.si_code = SI_QUEUE};
  const struct timespec none = {0, 0};
  syscall(SYS_rt_sigtimedwait, bytes(1), &info, &none, 8);
  syscall(SYS_rt_sigtimedwait, &(uint64_t){1}, &info, bytes(0), 8);  // one nanosecond more
  syscall(SYS_rt_sigqueueinfo, 0, 0, bytes(24));
  const int self = getpid();
  syscall(SYS_rt_tgsigqueueinfo, self, self, 0, bytes(24));
  syscall(SYS_pidfd_send_signal, -1, 0, bytes(24), 0);
  close((int)syscall(SYS_signalfd, -1, bytes(1), 8));
  close((int)syscall(SYS_signalfd4, -1, bytes(1), 8, 0));
}

static void on_signal(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ((ucontext_t*)context)->uc_link = (void*)(uintptr_t)next();
}

static void handler(void) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);
}

static void timers(void) {
  const int fd = (int)syscall(SYS_timerfd_create, CLOCK_MONOTONIC, 0);
  timer_t timer;
  struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
  CHECK(syscall(SYS_timer_create, CLOCK_MONOTONIC, &quiet, &timer) == 0);
  syscall(SYS_timer_create, CLOCK_MONOTONIC, bytes(0), &(int){0});
  syscall(SYS_timer_settime, timer, 0, bytes(0), NULL);
  syscall(SYS_timerfd_settime, fd, 0, bytes(0), NULL);
  syscall(SYS_setitimer, ITIMER_REAL, bytes(1), NULL);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  syscall(SYS_nanosleep, bytes(8), NULL);
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, bytes(8), NULL);
  syscall(SYS_clock_settime, -1, bytes(0));
  struct timeval* never = bytes(0);
  never->tv_usec = -1;
  syscall(SYS_settimeofday, never, NULL);
  syscall(SYS_adjtimex, bytes(16));
  syscall(SYS_clock_adjtime, -1, bytes(16));
  syscall(SYS_select, 0, NULL, NULL, NULL, bytes(8));
  syscall(SYS_pselect6, 0, NULL, NULL, NULL, bytes(8), NULL);
  struct {
    uint64_t* mask;
    uint64_t size;
  } masked = {(uint64_t*)bytes(0), 8};
  syscall(SYS_pselect6, 0, NULL, NULL, NULL, &(struct timespec){0, 1}, &masked);
  syscall(SYS_select, 8, bytes(0), NULL, NULL, &(struct timeval){0, 1});
  syscall(SYS_poll, bytes(4), 1, 0);
  syscall(SYS_ppoll, NULL, 0, bytes(8), NULL, 8);
  syscall(SYS_ppoll, NULL, 0, &(struct timespec){0, 1}, bytes(0), 8);
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  syscall(SYS_epoll_pwait, epoll, &event, 1, 0, bytes(0), 8);
  syscall(SYS_epoll_pwait2, epoll, &event, 1, bytes(8), NULL, 8);
  syscall(SYS_epoll_pwait2, epoll, &event, 1, &(struct timespec){0, 1}, bytes(0), 8);
  syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fd, bytes(4));
  int word = 0;
  syscall(SYS_futex, &word, 128 /* FUTEX_WAIT_PRIVATE */, 0, bytes(8), NULL, 0);
  syscall(449 /* futex_waitv */, bytes(0), 1, 0, &(struct timespec){0, 1}, CLOCK_MONOTONIC);
  syscall(455 /* futex_wait */, &word, 0, ~0ul, 2 /* 32 bits */, bytes(8), CLOCK_MONOTONIC);
  syscall(456 /* futex_requeue */, bytes(0), 1 << 30, 0, 0);
}

static void names(void) {
  CHECK(syscall(SYS_prctl, PR_SET_NAME, text()) == 0);
  prctl(PR_SET_NAME, "inputs");
  char* argument = text();
  char* list[] = {argument, NULL};
  char* nothing[] = {NULL};
  syscall(SYS_execve, kNowhere, list, nothing);
  argument = text();
  syscall(SYS_execve, kNowhere, nothing, list);
  syscall(SYS_execveat, -1, kNowhere, (argument = text(), list), nothing, 0);
  syscall(SYS_execve, text(), nothing, nothing);
  syscall(SYS_mount, kNowhere, kNowhere, "none", 0, text());
  syscall(SYS_mount, kNowhere, kNowhere, text(), 0, NULL);
  syscall(SYS_umount2, text(), 0);
  syscall(SYS_pivot_root, kNowhere, text());
  syscall(SYS_reboot, 0, 0, 0, text());
  syscall(SYS_memfd_create, text(), ~0u);
  syscall(SYS_mq_open, text(), O_RDONLY, 0, NULL);
  syscall(SYS_mq_unlink, text());
  syscall(SYS_request_key, "user", "no-such-key", text(), 0);
  syscall(SYS_add_key, "no-such-type", "x", bytes(0), 1, 0);
  const pid_t self = getpid();  // which is no child that it traces
  syscall(SYS_ptrace, 13 /* PTRACE_SETREGS */, self, 0, bytes(215));
  syscall(SYS_ptrace, 15 /* PTRACE_SETFPREGS */, self, 0, bytes(511));
  syscall(SYS_ptrace, 0x4203 /* PTRACE_SETSIGINFO */, self, 0, bytes(127));
  syscall(SYS_ptrace, 0x420b /* PTRACE_SETSIGMASK */, self, 8, bytes(7));
  static struct iovec block;
  block = (struct iovec){bytes(30), 31};
  syscall(SYS_ptrace, 0x4205 /* PTRACE_SETREGSET */, self, 1, &block);
  syscall(SYS_keyctl, 10 /* KEYCTL_SEARCH */, 0, "user", text(), 0);
  syscall(SYS_keyctl, 2 /* KEYCTL_UPDATE */, 1, bytes(0), 1);
  syscall(431 /* fsconfig */, -1, 1 /* FSCONFIG_SET_STRING */, "key", text(), 0);
  syscall(430 /* fsopen */, text(), 0);
  syscall(SYS_swapon, text(), 0);
  syscall(SYS_swapoff, text());
  syscall(SYS_chroot, text());
  syscall(SYS_sethostname, bytes(0), 4000);
  syscall(SYS_setdomainname, bytes(0), 4000);
  syscall(SYS_inotify_add_watch, -1, text(), 0);
  syscall(SYS_fanotify_mark, -1, 0, 0, -1, text());
  syscall(SYS_acct, text());
  syscall(SYS_finit_module, -1, text(), 0);
  syscall(SYS_delete_module, text(), ~0u);
}

static void paths(void) {
  syscall(SYS_open, text(), O_RDONLY);
  syscall(SYS_openat, AT_FDCWD, text(), O_RDONLY);
  struct {
    uint64_t flags, mode, resolve;
  } how = {0, 0, 0};
  how.flags = (uint64_t)next() << 63;
  syscall(437 /* openat2 */, AT_FDCWD, "no-such-thing", &how, sizeof how);
  syscall(SYS_stat, text(), room + 4096);
  syscall(SYS_newfstatat, AT_FDCWD, text(), room + 4096, 0);
  syscall(SYS_statx, AT_FDCWD, text(), 0, 0, room + 4096);
  syscall(SYS_access, text(), 0);
  syscall(SYS_rename, kNowhere, text());
  syscall(SYS_renameat2, AT_FDCWD, kNowhere, AT_FDCWD, text(), 0);
  syscall(SYS_link, text(), kNowhere);
  syscall(SYS_symlink, text(), kNowhere);
  syscall(SYS_readlink, text(), room + 4096, 100);
  syscall(SYS_unlink, text());
  syscall(SYS_chdir, text());
  syscall(SYS_truncate, text(), 0);
  syscall(SYS_utimensat, AT_FDCWD, kNowhere, bytes(0), 0);
  syscall(SYS_setxattr, kNowhere, "user.x", bytes(0), 1, 0);
  syscall(SYS_getxattr, kNowhere, text(), room + 4096, 100);
  syscall(SYS_name_to_handle_at, AT_FDCWD, kNowhere, bytes(0), room + 4096, 0);
  syscall(SYS_open_by_handle_at, -1, bytes(4), 0);
  syscall(444 /* landlock_create_ruleset */, bytes(0), 8, ~0u);
  syscall(445 /* landlock_add_rule */, -1, 1, bytes(0), 0);
}

static void ownership(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, -1};
  syscall(SYS_capset, &header, bytes(0));
  syscall(SYS_sched_setparam, -1, bytes(0));
  syscall(SYS_sched_setscheduler, -1, 0, bytes(0));
  struct {
    uint32_t size, policy;
    uint64_t rest[5];
  }* attributes = bytes(8);
  attributes->size = sizeof *attributes;
  syscall(SYS_sched_setattr, -1, attributes, 0);
  syscall(SYS_sched_setaffinity, -1, 8, bytes(0));
  syscall(SYS_setrlimit, 99, bytes(0));
  syscall(SYS_prlimit64, 0, 99, bytes(0), NULL);
  syscall(SYS_setgroups, 0x7fffffff, NULL);
  syscall(SYS_mbind, 0, 0, ~0u, bytes(0), 64, ~0u);
  syscall(SYS_set_mempolicy, ~0u, bytes(0), 64);
  syscall(SYS_migrate_pages, -1, 64, bytes(0), room + 4096);
  syscall(SYS_move_pages, -1, 1, room + 4096, bytes(0), room + 5000, ~0u);
}

static void messages(void) {
  const int shared = shmget(IPC_PRIVATE, 4096, 0600), queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 3, 0600);
  struct shmid_ds about;
  CHECK(shared >= 0 && queue >= 0 && set >= 0 && shmctl(shared, IPC_STAT, &about) == 0);
  syscall(SYS_shmctl, -1, IPC_SET, bytes(0));
  syscall(SYS_msgctl, -1, IPC_SET, bytes(0));
  syscall(SYS_semctl, -1, 0, IPC_SET, bytes(0));
  syscall(SYS_semctl, set, 0, SETALL, bytes(4));  // the last of them
  syscall(SYS_semop, -1, bytes(4), 1);
  syscall(SYS_semtimedop, -1, bytes(4), 1, NULL);
  syscall(SYS_msgsnd, -1, bytes(8), 1, 0);
  shmctl(shared, IPC_RMID, NULL);
  msgctl(queue, IPC_RMID, NULL);
  semctl(set, 0, IPC_RMID);
  syscall(SYS_mq_timedsend, -1, bytes(0), 1, 0, NULL);
  syscall(SYS_mq_timedreceive, -1, room, 1, NULL, bytes(0));
  syscall(SYS_mq_notify, -1, bytes(0));
  syscall(SYS_mq_getsetattr, -1, bytes(0), NULL);
  syscall(SYS_io_setup, 0, bytes(0));
  struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_nbytes = 1}, *requests[] = {&request};
  request.aio_buf = (uint64_t)(uintptr_t)bytes(0);
  syscall(SYS_io_submit, 0, 1, requests);
  request.aio_data = next();
  syscall(SYS_io_cancel, 0, &request, room + 4096);
  syscall(SYS_io_getevents, 0, 0, 0, NULL, bytes(0));
}

static void sockets(void) {
  int pair[2], fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && pipe(fds) == 0);
  struct iovec one = {room, 1};
  bytes(0);
  syscall(SYS_vmsplice, fds[1], &one, 1, 0);
  bytes(0);
  CHECK(syscall(SYS_write, fds[1], room, 1) == 1);
  bytes(0);
  CHECK(syscall(SYS_writev, fds[1], &one, 1) == 1);
  one.iov_len = 1u + next();
  CHECK(syscall(SYS_readv, fds[0], &one, 1) == 1);
  one.iov_len = 1;
  bytes(0);
  syscall(SYS_pwrite64, -1, room, 1, 0);
  bytes(0);
  syscall(SYS_pwritev, -1, &one, 1, 0, 0);
  one.iov_len = 1u + next();
  syscall(SYS_preadv, -1, &one, 1, 0, 0);
  bytes(0);
  CHECK(syscall(SYS_sendto, pair[0], room, 1, 0, NULL, 0) == 1);
  socklen_t length = 1u + next();
  CHECK(syscall(SYS_recvfrom, pair[1], room + 100, 1, 0, room + 200, &length) == 1);
  struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
  one.iov_len = 1;
  bytes(0);
  CHECK(syscall(SYS_sendmsg, pair[0], &message, 0) == 1);
  one.iov_len = 1u + next();
  CHECK(syscall(SYS_recvmsg, pair[1], &message, 0) == 1);
  struct mmsghdr several = {.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}};
  one.iov_len = 1;
  bytes(0);
  CHECK(syscall(SYS_sendmmsg, pair[0], &several, 1, 0) == 1);
  one.iov_len = 1u + next();
  CHECK(syscall(SYS_recvmmsg, pair[1], &several, 1, 0, NULL) == 1);
  length = 1u + next();
  syscall(SYS_getsockname, pair[0], room, &length);
  length = 1u + next();
  syscall(SYS_getpeername, pair[0], room, &length);
  length = 1u + next();
  syscall(SYS_accept, pair[0], room, &length);
  length = 1u + next();
  syscall(SYS_accept4, pair[0], room, &length, 0);
  length = 3u + next();
  syscall(SYS_getsockopt, pair[0], SOL_SOCKET, SO_TYPE, room, &length);
  syscall(SYS_setsockopt, pair[0], SOL_SOCKET, SO_KEEPALIVE, bytes(0), 4);
  syscall(SYS_bind, pair[0], bytes(4), 16);
  syscall(SYS_connect, pair[0], bytes(4), 16);
  loff_t offset = next();
  syscall(SYS_sendfile, -1, -1, &offset, 0);
  offset = next();
  syscall(SYS_splice, -1, &offset, -1, NULL, 0, 0);
  offset = next();
  syscall(SYS_copy_file_range, -1, &offset, -1, NULL, 0, 0);
  struct iovec other = {NULL, next()};
  syscall(SYS_process_vm_readv, 0, &one, 0, &other, 1, 0);
}

// Each store to a shared file is an output where the program asks for it.
static void stores(void) {
  const int file = open("inputs.map", O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(file >= 0 && unlink("inputs.map") == 0 && ftruncate(file, 8192) == 0);
  unsigned char* place = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(place != MAP_FAILED);
  place[5000] = next();
  CHECK(syscall(SYS_msync, place, 8192, MS_SYNC) == 0);
}

static void requests(void) {
  const int lock = open("inputs.lock", O_RDWR | O_CREAT | O_EXCL, 0600), quiet = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(lock >= 0 && quiet >= 0 && unlink("inputs.lock") == 0);
  struct flock range = {.l_type = F_WRLCK, .l_len = 1};
  range.l_start = next();
  CHECK(syscall(SYS_fcntl, lock, F_SETLK, &range) == 0);
  range.l_start = next();
  CHECK(syscall(SYS_fcntl, lock, F_SETLKW, &range) == 0);
  range.l_start = 10 + next();
  CHECK(syscall(SYS_fcntl, lock, F_OFD_SETLK, &range) == 0);
  range.l_start = next();
  CHECK(syscall(SYS_fcntl, lock, F_GETLK, &range) == 0);
  struct f_owner_ex owner = {F_OWNER_PID, 0};
  owner.pid = next();
  syscall(SYS_fcntl, quiet, F_SETOWN_EX, &owner);
  syscall(SYS_ioctl, quiet, FIONBIO, bytes(0));
  syscall(SYS_ioctl, -1, TCSETS, bytes(17));
  syscall(SYS_ioctl, -1, TIOCSWINSZ, bytes(0));
  syscall(SYS_ioctl, -1, _IOW('f', 200, char[64]), bytes(50));
  struct ifreq request = {.ifr_name = "no-such-one"};
  request.ifr_name[0] = (char)('a' + next());
  syscall(SYS_ioctl, quiet, SIOCGIFFLAGS, &request);
  struct ethtool_coalesce change = {.cmd = ETHTOOL_SCOALESCE};
  change.rx_coalesce_usecs = next();
  request.ifr_data = (void*)&change;
  syscall(SYS_ioctl, quiet, SIOCETHTOOL, &request);
}

int main(void) {
  const int zero = open("/dev/zero", O_RDONLY);
  CHECK(zero >= 0 && dup2(zero, kSeed) == kSeed);
  signals();
  handler();
  timers();
  names();
  paths();
  ownership();
  messages();
  sockets();
  stores();
  requests();
  return success();
}
