// Calls that libraries of today make by newer names, made by their own numbers; and what each thread tells the kernel of itself.
#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>

#include "check.h"

int main(void) {
  struct stat st, link;
  int p[2], status;
  CHECK(syscall(SYS_pipe, p) == 0 && syscall(SYS_fstat, p[0], &st) == 0 && S_ISFIFO(st.st_mode) && syscall(SYS_lstat, "/", &link) == 0 && S_ISDIR(link.st_mode));
  CHECK(syscall(SYS_faccessat, AT_FDCWD, "/", R_OK) == 0 && syscall(SYS_faccessat, p[0], "none-such", F_OK) == -1 && errno == ENOTDIR);
  int group = (int)syscall(SYS_epoll_create, 5), counter = (int)syscall(SYS_eventfd, 7);
  unsigned long long value = 0;
  CHECK(group >= 0 && counter >= 0 && read(counter, &value, 8) == 8 && value == 7 && close(group) == 0 && close(counter) == 0);
  struct timex clock = {0};
  CHECK(syscall(SYS_adjtimex, &clock) >= 0 && clock.tick > 0);

  unsigned long base = 0, own, *head = NULL, size = 0;
  asm("mov %%fs:0, %0" : "=r"(own));
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base == own && syscall(SYS_arch_prctl, ARCH_SET_FS, base) == 0);
  CHECK(syscall(SYS_arch_prctl, 0x4242, 0) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_get_robust_list, 0, &head, &size) == 0 && size == 24 && head && *head);
  static int cleared = 5;
  CHECK(syscall(SYS_set_tid_address, &cleared) == getpid());

  long child = syscall(SYS_fork);
  if (child == 0) _exit(syscall(SYS_set_robust_list, head, 24) == 0 ? 3 : 4);
  CHECK(child > 0 && waitpid((pid_t)child, &status, 0) == child && WEXITSTATUS(status) == 3);
  child = vfork();
  if (child == 0) _exit(6);
  CHECK(child > 0 && waitpid((pid_t)child, &status, 0) == child && WEXITSTATUS(status) == 6);
  CHECK(close(p[0]) == 0 && close(p[1]) == 0);
  return success();
}
