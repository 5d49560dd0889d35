// Parent and child play ping-pong over two pipes, then the child ends and the parent waits.
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

static __attribute__((noinline)) int answer_to(int value) { return value * 3 + 1; }

int main(void) {
  int down[2], up[2], value;
  CHECK(pipe(down) == 0 && pipe(up) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(down[1]);
    close(up[0]);
    while (read(down[0], &value, sizeof value) == sizeof value) {
      value = answer_to(value);
      CHECK(write(up[1], &value, sizeof value) == sizeof value);
    }
    _exit(7);
  }
  close(down[0]);
  close(up[1]);
  for (int i = 0; i < 1000; i++) {
    CHECK(write(down[1], &i, sizeof i) == sizeof i);
    CHECK(read(up[0], &value, sizeof value) == sizeof value && value == answer_to(i));
  }
  close(down[1]);
  int status;
  struct rusage usage;
  CHECK(wait4(child, &status, 0, &usage) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  CHECK(wait(NULL) == -1 && errno == ECHILD);
  return success();
}
