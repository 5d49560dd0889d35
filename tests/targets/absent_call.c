// A call number that the kernel does not know: programs that try calls newer than their kernel do so.
#include <sys/syscall.h>

#include "check.h"

int main(void) {
  CHECK(syscall(100000) == -1 && errno == ENOSYS && getpid() > 0);
  return success();
}
