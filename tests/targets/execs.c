// A program that replaces itself, twice, with other arguments; with `clean` also with an environment of its own.
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
  char* arguments[] = {argv[0], number, argc > 2 ? argv[2] : NULL, NULL};
  char* clean[] = {variable, NULL};
  CHECK(putenv(variable) == 0);
  CHECK(execve("/absent/program", arguments, environ) == -1 && errno == ENOENT);
  execve("/proc/self/exe", arguments, argc > 2 ? clean : environ);
  return 1;
}
