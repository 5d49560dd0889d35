// Limits lowered to almost nothing after the start: descriptors, file size, address space, core.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

static void set(int which, rlim_t value) {
  struct rlimit limit;
  CHECK(getrlimit(which, &limit) == 0);
  limit.rlim_cur = value;
  CHECK(setrlimit(which, &limit) == 0 && prlimit(0, which, NULL, &limit) == 0 && limit.rlim_cur == value);
}

int main(void) {
  set(RLIMIT_CORE, 0);
  set(RLIMIT_NOFILE, 8);
  int last = -1, fd;
  while ((fd = open("/dev/null", O_RDONLY)) >= 0) last = fd;
  CHECK(errno == EMFILE && last == 7);
  for (fd = 3; fd <= 7; fd++) close(fd);
  char name[] = "limited-XXXXXX";
  fd = mkstemp(name);
  signal(SIGXFSZ, SIG_IGN);
  set(RLIMIT_FSIZE, 100);
  static char block[1000];
  CHECK(fd >= 0 && unlink(name) == 0 && write(fd, block, sizeof block) == 100 && write(fd, block, 1) == -1 && errno == EFBIG);
  set(RLIMIT_AS, 64 << 20);
  CHECK(mmap(NULL, 100 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
  for (int i = 0; i < 20000; i++) CHECK(getppid() > 0);
  return success();
}
