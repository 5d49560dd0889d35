// Arguments of 32 bits in registers whose upper halves hold something else, which the kernel does not look at.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

#define ABOVE 0x1234567800000000

static int came;  // the signal that a handler has got

// As the registers have them, r10 in the place of rcx. The call must leave them all as they are, unless a handler is
// entered.
static long raw(long number, long a, long b, long c, long d, long e) {
  long result, rdi = a, rsi = b, rdx = c;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  asm volatile("syscall"
               : "=a"(result), "+D"(rdi), "+S"(rsi), "+d"(rdx), "+r"(r10), "+r"(r8)
               : "a"(number)
               : "rcx", "r11", "memory");
  if (came == 0) CHECK(rdi == a && rsi == b && rdx == c && r10 == d && r8 == e);
  return result;
}

static void handler(int signal) { came = signal; }

static void memory(void) {
  char name[16], *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(raw(SYS_prctl, ABOVE | PR_GET_NAME, (long)name, 0, 0, 0) == 0);
  printf("name %s\n", name);
  *page = 'd';
  CHECK(raw(SYS_madvise, (long)page, 4096, ABOVE | MADV_DONTNEED, 0, 0) == 0);
  printf("dropped %d\n", *page);
  unsigned char caps[5] = {0};
  printf("keyctl %d\n", raw(SYS_keyctl, ABOVE | 31 /* KEYCTL_CAPABILITIES */, (long)caps, 5, 0, 0) > 0);
  printf("caps %d\n", caps[0] != 0);
  const long segment = raw(SYS_shmget, IPC_PRIVATE, 4096, ABOVE | 0600 | IPC_CREAT, 0, 0);
  const long at = raw(SYS_shmat, ABOVE | segment, 0, ABOVE, 0, 0);
  CHECK(at > 0);
  strcpy((char*)at, "shared");
  struct shmid_ds about;
  CHECK(raw(SYS_shmctl, ABOVE | segment, ABOVE | IPC_STAT, (long)&about, 0, 0) == 0);
  printf("segment of %ld\n", (long)about.shm_segsz);
  CHECK(raw(SYS_shmctl, ABOVE | segment, ABOVE | IPC_RMID, 0, 0, 0) == 0);
  struct rlimit limit;
  CHECK(raw(SYS_getrlimit, ABOVE | RLIMIT_AS, (long)&limit, 0, 0, 0) == 0);
  printf("limit %d\n", limit.rlim_cur == RLIM_INFINITY);
}

static void descriptors(void) {
  int ends[2];
  char bytes[8] = "";
  CHECK(pipe(ends) == 0 && write(ends[1], "hello", 5) == 5);
  struct pollfd one = {ends[0], POLLIN, 0};
  printf("poll %ld\n", raw(SYS_poll, (long)&one, ABOVE | 1, ABOVE, 0, 0));
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  struct timeval none = {0, 0};
  printf("select %ld\n", raw(SYS_select, ABOVE | 10, (long)&set, 0, 0, (long)&none));
  int waiting = 0;
  CHECK(raw(SYS_ioctl, ABOVE | ends[0], ABOVE | 0x541b /* FIONREAD */, (long)&waiting, 0, 0) == 0);
  printf("waiting %d\n", waiting);
  printf("read %ld\n", raw(SYS_read, ABOVE | ends[0], (long)bytes, 5, 0, 0));
  printf("bytes %s\n", bytes);
  const int epoll = epoll_create1(0);
  struct epoll_event event = {EPOLLOUT, {.u64 = 5}}, found[2];
  CHECK(raw(SYS_epoll_ctl, ABOVE | epoll, ABOVE | EPOLL_CTL_ADD, ABOVE | ends[1], (long)&event, 0) == 0);
  printf("epoll_wait %ld\n", raw(SYS_epoll_wait, ABOVE | epoll, (long)found, ABOVE | 2, ABOVE | 1000, 0));
  printf("data %d\n", (int)found[0].data.u64);
  CHECK(raw(SYS_dup2, ABOVE | ends[0], ABOVE | 77, 0, 0, 0) == 77 && raw(SYS_close, ABOVE | 77, 0, 0, 0, 0) == 0);
  CHECK(raw(SYS_close_range, ABOVE | 70, ABOVE | 80, ABOVE, 0, 0) == 0);
  int pair[2], type = 0;
  socklen_t size = sizeof type;
  CHECK(raw(SYS_socketpair, ABOVE | AF_UNIX, ABOVE | SOCK_STREAM, ABOVE, (long)pair, 0) == 0);
  CHECK(raw(SYS_getsockopt, ABOVE | pair[0], ABOVE | SOL_SOCKET, ABOVE | SO_TYPE, (long)&type, (long)&size) == 0);
  printf("type %d\n", type);
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffff), back[4];
  struct sock_fprog program = {1, &all};
  CHECK(setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
  size = 4;
  memset(back, 'b', sizeof back);
  CHECK(raw(SYS_getsockopt, ABOVE | pair[0], ABOVE | SOL_SOCKET, ABOVE | SO_GET_FILTER, (long)back, (long)&size) == 0);
  printf("filter of %d, code %d, %x\n", (int)size, back[0].code, back[0].k);
}

static void signals(void) {
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action = {SIG_IGN, 0, NULL, 0};
  CHECK(raw(SYS_rt_sigaction, ABOVE | SIGUSR1, (long)&action, 0, 8, 0) == 0);
  CHECK(raw(SYS_kill, ABOVE | getpid(), ABOVE | SIGUSR1, 0, 0, 0) == 0);
  CHECK(signal(SIGUSR2, handler) != SIG_ERR);
  unsigned long mask = 1ul << (SIGUSR2 - 1), old;
  CHECK(raw(SYS_rt_sigprocmask, ABOVE | SIG_BLOCK, (long)&mask, (long)&old, 8, 0) == 0);
  CHECK(raise(SIGUSR2) == 0);
  printf("blocked: %d\n", came);
  CHECK(raw(SYS_rt_sigprocmask, ABOVE | SIG_UNBLOCK, (long)&mask, 0, 8, 0) == 0);
  printf("came: %d\n", came == SIGUSR2);
}

static void waits(void) {
  int word = 7;
  struct timespec soon = {0, 1000000};
  printf("wait %ld\n", raw(SYS_futex, (long)&word, ABOVE | FUTEX_WAIT, ABOVE | 7, (long)&soon, 0));
  printf("wake %ld\n", raw(SYS_futex, (long)&word, ABOVE | FUTEX_WAKE, ABOVE | 1, 0, 0));
  word = 0;
  CHECK(raw(SYS_futex, (long)&word, ABOVE | FUTEX_LOCK_PI, 0, 0, 0) == 0);
  printf("owned %d\n", word == getpid());
  CHECK(raw(SYS_futex, (long)&word, ABOVE | FUTEX_UNLOCK_PI, 0, 0, 0) == 0);
  const pid_t child = fork();
  if (child == 0) _exit(3);
  int status = 0;
  CHECK(raw(SYS_wait4, ABOVE | child, (long)&status, ABOVE, 0, 0) == child);
  printf("status %x\n", status);
  const int set = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
  struct sembuf up = {0, 1, 0};
  CHECK(raw(SYS_semop, ABOVE | set, (long)&up, ABOVE | 1, 0, 0) == 0);
  CHECK(raw(SYS_semctl, ABOVE | set, ABOVE, ABOVE | IPC_RMID, 0, 0) == 0);
}

int main(void) {
  CHECK(raw(0xdead00000000 | SYS_getpid, 0, 0, 0, 0, 0) == getpid());
  memory();
  descriptors();
  signals();
  waits();
  return success();
}
