// Calls that need a right that few have or that change the machine, made so that they fail; and arguments beyond all bounds.
#include <poll.h>
#include <sys/acct.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <time.h>

#include "check.h"

#define FAILS(call) CHECK((call) == -1)

int main(void) {
  char text[16] = "none-such";
  struct timex clock = {0};
  struct timespec never = {-1, -1};
  FAILS(syscall(SYS_settimeofday, &(struct timeval){-1, -1}, NULL));
  FAILS(syscall(SYS_clock_settime, CLOCK_MONOTONIC, &never));
  CHECK(adjtimex(&clock) >= 0 && clock.tick > 0 && syscall(SYS_clock_adjtime, CLOCK_REALTIME, &clock) >= 0);
  FAILS(syscall(SYS_acct, "none-such/file"));
  FAILS(syscall(SYS_pivot_root, "none-such", "none-such"));
  FAILS(syscall(SYS_delete_module, "friday-none-such", 0));
  FAILS(syscall(SYS_init_module, text, 10, ""));
  FAILS(syscall(SYS_finit_module, -1, "", 0));
  FAILS(syscall(SYS_swapon, "none-such", 0));
  FAILS(syscall(SYS_swapoff, "none-such"));
  FAILS(syscall(SYS_reboot, 1, 2, 3, 4));  // not the magic numbers
  syscall(SYS_syslog, 10 /* how large is it */, NULL, 0);
  FAILS(syscall(SYS_execveat, -1, "none-such", NULL, NULL, 0));
  FAILS(syscall(SYS_process_madvise, -1, NULL, 0, 20, 0));
  // Counts and sizes that lead out of everything.
  struct pollfd one = {-1, 0, 0};
  fd_set set;
  FD_ZERO(&set);
  FAILS(syscall(SYS_poll, &one, 0x7fffffff, 0));
  FAILS(syscall(SYS_select, -1, &set, NULL, NULL, NULL));
  FAILS(syscall(SYS_sendto, 0, text, ~0ul >> 1, 0, text, 0x7fffffff));
  FAILS(syscall(SYS_readv, 0, text, 0x7fffffff));
  FAILS(syscall(SYS_writev, 1, text, -1));
  FAILS(syscall(SYS_sendmmsg, -1, text, 0x7fffffff, 0));
  FAILS(syscall(SYS_getgroups, -1, text));
  FAILS(syscall(SYS_epoll_wait, 0, text, -1, 0));
  FAILS(syscall(SYS_setsockopt, 0, SOL_SOCKET, SO_RCVBUF, text, -1));
  FAILS(syscall(SYS_semop, -1, text, 0xffffffff));
  FAILS(syscall(SYS_process_vm_writev, getpid(), text, 0x7fffffff, text, 0x7fffffff, 0));
  FAILS(syscall(SYS_mq_timedsend, -1, text, ~0ul, 0, NULL));
  FAILS(syscall(SYS_nanosleep, &never, NULL));
  return success();
}
