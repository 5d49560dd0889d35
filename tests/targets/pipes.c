// Pipes within one process: blocking and not, full, empty, broken, closed.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "check.h"

int main(void) {
  int p[2], count = 0;
  char text[4096] = "x", back[5000];
  CHECK(pipe(p) == 0 && write(p[1], "abcdef", 6) == 6 && read(p[0], back, 3) == 3 && memcmp(back, "abc", 3) == 0);
  CHECK(ioctl(p[0], FIONREAD, &count) == 0 && count == 3 && read(p[0], back, sizeof back) == 3);
  for (int i = 0; i < 2000; i++) {
    CHECK(write(p[1], &i, sizeof i) == sizeof i);
    CHECK(read(p[0], &count, sizeof count) == sizeof count && count == i);
  }
  CHECK(write(p[1], "end", 3) == 3 && close(p[1]) == 0 && read(p[0], back, sizeof back) == 3 && read(p[0], back, 1) == 0);
  CHECK(close(p[0]) == 0);

  CHECK(pipe2(p, O_NONBLOCK | O_CLOEXEC) == 0 && read(p[0], back, 1) == -1 && errno == EAGAIN);
  long stored = 0;
  for (ssize_t n; (n = write(p[1], text, sizeof text)) > 0;) stored += n;
  CHECK(errno == EAGAIN && stored == fcntl(p[1], F_GETPIPE_SZ));
  signal(SIGPIPE, SIG_IGN);
  CHECK(close(p[0]) == 0 && write(p[1], "x", 1) == -1 && errno == EPIPE && close(p[1]) == 0);
  return success();
}
