// Processes of which one has ended and another has not begun yet while their parent goes on, for tests of checkpoints
// (tests/unit/history_*_test.cc). The first line says where its function and its variables are.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

enum { kRounds = 30, kTicks = 3 };

volatile long ticks;    // of this process
volatile long* shared;  // the same number of all processes together
static char block[1 << 20];

__attribute__((noinline)) void tick(void) {
  ticks++;
  ++*shared;
}

// Each round makes one system call. Its argument follows from the memory of this process.
static void rounds(int count) {
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < kTicks; k++) tick();
    umask((mode_t)(ticks & 0777));
  }
}

static pid_t begin(int code) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    rounds(kRounds);
    _exit(code);
  }
  return child;
}

static void await(pid_t child, int code) {
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

int main(void) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  CHECK(printf("places %p %p %p %p\n", (void*)tick, (void*)&ticks, (void*)shared, (void*)block) > 0 &&
        fflush(stdout) == 0);
  memset(block, 1, sizeof block);
  await(begin(3), 3);
  rounds(kRounds);
  memset(block, 2, sizeof block);  // the only part of the way in which many pages change
  rounds(kRounds);
  await(begin(4), 4);
  rounds(kRounds);
  CHECK(block[sizeof block / 2] == 2);
  return success();
}
