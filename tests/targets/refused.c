// Calls that programs can do without: io_uring is answered with ENOSYS while recording, so that they fall back.
#include <sys/syscall.h>

#include "check.h"

int main(void) {
  char parameters[256] = {0};
  long fd = syscall(SYS_io_uring_setup, 8, parameters);
  printf("io_uring %s\n", fd == -1 && errno == ENOSYS ? "is not there" : "is there");
  return success();
}
