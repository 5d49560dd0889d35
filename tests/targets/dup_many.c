// Descriptors duplicated onto hundreds of numbers, so that none stays free for anybody else.
#include <fcntl.h>
#include <sys/resource.h>

#include "check.h"

int main(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 1020);
  int p[2];
  char byte;
  CHECK(pipe(p) == 0);
  for (int fd = 10; fd < 1020; fd++) CHECK(dup2(p[1], fd) == fd);
  for (int fd = 10; fd < 1020; fd += 7) CHECK(write(fd, "x", 1) == 1 && read(p[0], &byte, 1) == 1 && byte == 'x');
  CHECK(fcntl(p[0], F_DUPFD, 500) >= 1020 || limit.rlim_cur <= 1020);
  CHECK(fcntl(p[0], F_DUPFD_CLOEXEC, 5) < 10);
  CHECK(dup3(p[0], 1000, O_CLOEXEC) == 1000 && fcntl(1000, F_GETFD) == FD_CLOEXEC && close(1000) == 0);
  for (int fd = 10; fd < 1020; fd++) CHECK((close(fd) == 0) == (fd != 1000));
  CHECK(dup2(p[0], p[0]) == p[0] && dup2(900, 901) == -1 && errno == EBADF);
  CHECK(dup(0) >= 0);
  return success();
}
