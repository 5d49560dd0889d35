// Memory shared by parent and child: what the child stored is there when the parent has waited for it.
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

int main(void) {
  int* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      shared[i] = shared[i ? i - 1 : 0] + 10;
      _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
  }
  printf("%d\n", shared[4]);
  CHECK(shared[4] == 50);
  return success();
}
