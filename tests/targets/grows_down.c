// Memory that grows downwards where it is touched (MAP_GROWSDOWN): by stores and by calls, in a child too, and as far as the limit of
// stacks allows, which the program changes.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

#define MIB (1l << 20)

static sigjmp_buf back;
static char own[65536];

static void fault(int number) { siglongjmp(back, number); }

static void limit_to(rlim_t size) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  limit.rlim_cur = size < limit.rlim_max ? size : limit.rlim_max;
  CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
}

// One page at the end of a hole. The room for it stands first, so that nothing else comes to lie there.
static char* small(long room) {
  char* hole = mmap(NULL, (size_t)room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(hole != MAP_FAILED && munmap(hole, (size_t)room) == 0);
  char* page = mmap(hole + room - 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
  CHECK(page == hole + room - 4096);
  return page;
}

static int may_store(char* place) {
  if (sigsetjmp(back, 1)) return 0;
  *(volatile char*)place = 7;
  return 1;
}

int main(void) {
  stack_t stack = {.ss_sp = own, .ss_size = sizeof own};
  struct sigaction action = {.sa_handler = fault, .sa_flags = SA_ONSTACK};
  CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);

  limit_to(8 * MIB);
  char* p = small(64 * MIB);
  for (int i = 0; i < 20; i++) p[-4096 * i - 100] = (char)i;
  int ends[2];
  CHECK(pipe(ends) == 0 && write(ends[1], "behind", 6) == 6 && read(ends[0], p - MIB, 6) == 6 && memcmp(p - MIB, "behind", 6) == 0);
  CHECK(p[-4096 * 10 - 100] == 10 && p[-MIB / 2] == 0);
  pid_t child = fork();
  if (child == 0) {
    p[-2 * MIB] = 1;
    _exit(p[-MIB] == 'b' ? 5 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
  CHECK(!may_store(p - 16 * MIB) && may_store(p - 4 * MIB));
  limit_to(32 * MIB);
  CHECK(may_store(p - 24 * MIB) && !may_store(p - 48 * MIB));
  limit_to(8 * MIB);
  // The stack itself, as libraries that want it executable have it done.
  char* here = (char*)((unsigned long)&status & ~4095ul);
  CHECK(mprotect(here, 4096, PROT_READ | PROT_WRITE | PROT_GROWSDOWN) == 0);
  CHECK(munmap(p - 24 * MIB, 24 * MIB + 4096) == 0 && !may_store(p));
  return success();
}
