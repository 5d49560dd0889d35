// A server that makes a session of its own without a fork, as smbd -F does, and a daemon that outlives it. `daemon`: the daemon goes on until
// it is told to end, and says so in the file that is named next.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static void work(const char* file) {
  sigset_t set;
  int number;
  CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGTERM) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  CHECK(setsid() == getpid());
  const int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
  CHECK(fd >= 0 && write(fd, "begun ", 6) == 6 && sigwait(&set, &number) == 0 && write(fd, "ended", 5) == 5);
  _exit(0);
}

int main(int argc, char** argv) {
  // Who has just made a group of its own cannot make a session; a shell's script has not.
  CHECK(getpgrp() != getpid() || getsid(0) == getpid());
  if (getpgrp() != getpid()) CHECK(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
  CHECK(setsid() == -1 && errno == EPERM);
  if (argc > 2 && strcmp(argv[1], "daemon") == 0) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) work(argv[2]);
    while (access(argv[2], F_OK) != 0) usleep(1000);
  }
  return success();
}
