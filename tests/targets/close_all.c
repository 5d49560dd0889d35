// What daemons do: close every descriptor but the standard ones, by a loop and by close_range, then work on.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/syscall.h>

#include "check.h"

static void work(void) {
  for (int i = 0; i < 100; i++) {
    int fd = open("/dev/null", O_RDWR);
    CHECK(fd == 3 && write(fd, "x", 1) == 1 && close(fd) == 0);
  }
}

int main(void) {
  int closed = 0;
  for (int fd = 3; fd < 65536; fd++) closed += close(fd) == 0;
  printf("%d were open\n", closed);
  work();
  CHECK(dup2(0, 50) == 50 && dup2(0, 900) == 900);
  CHECK(syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) == 0 && (fcntl(50, F_GETFD) & FD_CLOEXEC));
  CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0 && fcntl(50, F_GETFD) == -1 && errno == EBADF);
  work();
  closefrom(3);
  work();
  return success();
}
