// Locals that optimised code no longer has where it stands: one whose name is a global's too, one that can still be computed.
#include <unistd.h>

#include "check.h"

int shadowed = 5;
static volatile int source = 7;

__attribute__((noinline, noipa)) static int keep(int value) { return source = value; }

__attribute__((noinline, noipa)) static int lose(int n) {
  int shadowed = source, gone = source + 1, computed = n * 2;
  keep(shadowed + gone + computed);
  CHECK(write(STDOUT_FILENO, "x\n", 2) == 2);
  return n;
}

int main(void) {
  CHECK(lose(4) == 4);
  return success();
}
