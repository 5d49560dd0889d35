// A daemon as they were made of old: a session of its own, a second fork, closed descriptors; who started it has ended before it
// begins its work, which is to end with 7.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

static void work(int ready, pid_t leader, pid_t starter) {
  CHECK(getsid(0) == leader && getpid() != leader);
  CHECK(chdir("/") == 0);
  umask(027);
  for (int fd = 0; fd < 64; fd++)
    if (fd != ready) close(fd);
  CHECK(open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2);
  CHECK(open("/dev/tty", O_RDWR) == -1);
  CHECK(write(ready, "r", 1) == 1 && close(ready) == 0);
  while (kill(starter, 0) == 0) usleep(1000);
  CHECK(getppid() != leader && write(1, "nobody reads this", 17) == 17);
  _exit(7);
}

int main(void) {
  int pair[2], status;
  char byte;
  const pid_t starter = getpid();
  CHECK(pipe(pair) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(signal(SIGHUP, SIG_IGN) != SIG_ERR && setsid() == getpid());
    const pid_t leader = getpid(), daemon = fork();
    CHECK(daemon >= 0);
    if (daemon == 0) work(pair[1], leader, starter);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(close(pair[1]) == 0 && read(pair[0], &byte, 1) == 1 && byte == 'r' && read(pair[0], &byte, 1) == 0);
  return success();
}
