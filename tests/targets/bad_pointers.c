// Pointers that lead nowhere: the kernel says EFAULT, and the program goes on.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

#define EFAULTS(call) CHECK((call) == -1 && errno == EFAULT)

static char *half;  // its last byte is the last of a mapping

static void files(char *bad, int fd) {
  struct stat st;
  EFAULTS(syscall(SYS_open, bad, O_RDONLY));
  EFAULTS(syscall(SYS_stat, bad, &st));
  EFAULTS(syscall(SYS_stat, "/", bad));
  EFAULTS(syscall(SYS_rename, "no-such-file", bad));
  EFAULTS(write(fd, bad, 10));
  CHECK(write(fd, half, 64) == 1);  // what can be read is written
  EFAULTS(pread(fd, bad, 1, 0));
  struct iovec parts[2] = {{"x", 1}, {bad, 5}};
  CHECK(writev(fd, parts, 2) == 1 || errno == EFAULT);
  EFAULTS(syscall(SYS_writev, fd, bad, 2));
  EFAULTS(syscall(SYS_pipe2, bad, 0));
}

static void waiting(char *bad) {
  EFAULTS(syscall(SYS_poll, bad, 3, 0));
  EFAULTS(syscall(SYS_select, 10, bad, 0, 0, 0));
  EFAULTS(syscall(SYS_nanosleep, bad, 0));
  EFAULTS(syscall(SYS_clock_gettime, CLOCK_REALTIME, bad));
  EFAULTS(syscall(SYS_futex, bad, 0 /* FUTEX_WAIT */, 0, 0, 0, 0));
  CHECK(fork() != 0 || (_exit(0), 0));
  EFAULTS(syscall(SYS_wait4, -1, bad, 0, 0));
}

static void sockets(char *bad) {
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(s >= 0);
  EFAULTS(syscall(SYS_bind, s, bad, 16));
  EFAULTS(syscall(SYS_sendto, s, bad, 10, 0, bad, 16));
  EFAULTS(syscall(SYS_sendmsg, s, bad, 0));
  EFAULTS(syscall(SYS_getsockname, s, bad, bad));
  EFAULTS(syscall(SYS_setsockopt, s, SOL_SOCKET, SO_RCVBUF, bad, 4));
  CHECK(syscall(SYS_recvmsg, s, bad, MSG_DONTWAIT) == -1);
}

static void signals(char *bad) {
  EFAULTS(syscall(SYS_rt_sigaction, SIGUSR1, bad, 0, 8));
  EFAULTS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, 0, 8));
  EFAULTS(syscall(SYS_sigaltstack, bad, 0));
  EFAULTS(syscall(SYS_execve, bad, 0, 0));
  EFAULTS(syscall(SYS_execve, "/bin/true", bad, bad));
}

int main(void) {
  char *area = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED && munmap(area + 4096, 4096) == 0);
  half = area + 4095;
  char *places[] = {area + 4096, (char *)16, (char *)0xdeadbeef000, (char *)-4096};
  int fd = open("bad", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0);
  for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
    files(places[i], fd);
    waiting(places[i]);
    sockets(places[i]);
    signals(places[i]);
  }
  return success();
}
