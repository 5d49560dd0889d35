// keeps_turn FILE: two processes share memory. One writes its number to FILE, computes for a while and makes no call, so that the other one
// waits for its turn.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  volatile int* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (!pid) {
    const int file = open(argv[1], O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && dprintf(file, "%d\n", getpid()) > 0);
    for (volatile long i = 0; i < 2000000000; i++) {}
    shared[0] = 1;
    _exit(0);
  }
  while (!shared[0]) usleep(1000);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  return success();
}
