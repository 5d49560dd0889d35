// Three processes that route by hand: 0 sends what is for 2 through 1, and never learns that 1 has exited. Then it kills 2, which
// waits in a call. `ends DIRECTORY ID`; what each has to tell the others is a file in DIRECTORY.
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "check.h"

static volatile int id = -1, next_hop = -1;
static const char* directory;

static void nap(long ms) { CHECK(nanosleep(&(struct timespec){0, ms * 1000000}, NULL) == 0); }

static const char* path_of(int who) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%d", directory, who);
  return path;
}

static pid_t wait_for(int who) {
  pid_t pid = 0;
  for (int tries = 0; tries < 10000; tries++) {
    const int fd = open(path_of(who), O_RDONLY);
    if (fd >= 0) {
      const ssize_t got = read(fd, &pid, sizeof pid);
      CHECK(close(fd) == 0);
      if (got == sizeof pid) return pid;
    }
    nap(1);
  }
  CHECK(!"the others have begun");
  return pid;
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  directory = argv[1];
  id = atoi(argv[2]);
  next_hop = id == 2 ? -2 : id + 1;
  const pid_t own = getpid();
  const int fd = open(path_of(id), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && write(fd, &own, sizeof own) == sizeof own && close(fd) == 0);
  const pid_t first = wait_for(1), last = wait_for(2);
  wait_for(0);
  if (id == 1) return success();
  if (id == 2) for (;;) pause();
  while (kill(first, 0) == 0) nap(1);
  nap(100);
  CHECK(write(1, "kills\n", 6) == 6 && kill(last, SIGKILL) == 0);
  while (kill(last, 0) == 0) nap(1);
  CHECK(write(1, "killed\n", 7) == 7);
  for (int i = 0; i < 20; i++) nap(1);
  return success();
}
