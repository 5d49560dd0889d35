// Many quick calls: 100,000 getpid, and the identity calls.
#include <sys/syscall.h>

#include "check.h"

int main(void) {
  const pid_t pid = getpid();
  for (int i = 0; i < 100000; i++) CHECK(syscall(SYS_getpid) == pid);
  CHECK(gettid() == pid && getppid() > 0 && getpgrp() > 0 && getsid(0) > 0);
  CHECK(getuid() == geteuid() && getgid() == getegid());
  return success();
}
