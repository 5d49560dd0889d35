// A program that replaces itself, twice, with arguments and an environment of its own.
#include <fcntl.h>

#include "check.h"

int main(int argc, char** argv) {
  const int left = argc > 1 ? atoi(argv[1]) : 2;
  printf("%d left, LEFT=%s\n", left, getenv("LEFT") ? getenv("LEFT") : "");
  CHECK(fflush(stdout) == 0);
  if (left == 0) return success();
  char number[16], variable[16];
  snprintf(number, sizeof number, "%d", left - 1);
  snprintf(variable, sizeof variable, "LEFT=%d", left);
  char* arguments[] = {argv[0], number, NULL};
  char* environment[] = {variable, NULL};  // without LD_PRELOAD
  CHECK(execve("/absent/program", arguments, environment) == -1 && errno == ENOENT);
  execve("/proc/self/exe", arguments, environment);
  return 1;
}
