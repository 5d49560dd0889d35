// Handlers that leave by siglongjmp, run on a stack of their own, and make calls; faults that are handled and repaired.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "check.h"

static sigjmp_buf back;
static char stack[65536];
static volatile int on_own_stack;
static char* page;

static void jump(int number) {
  char here;
  on_own_stack = &here >= stack && &here < stack + sizeof stack;
  CHECK(getpid() > 0);
  siglongjmp(back, number);
}

static void repair(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  CHECK((char*)info->si_addr == page + 100 && mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void set(int number, int flags) {
  struct sigaction action = {.sa_handler = jump, .sa_flags = flags};
  CHECK(sigaction(number, &action, NULL) == 0);
}

int main(void) {
  stack_t own = {.ss_sp = stack, .ss_size = sizeof stack}, old;
  CHECK(sigaltstack(&own, NULL) == 0 && sigaltstack(NULL, &old) == 0 && old.ss_sp == stack);
  volatile int jumps = 0;
  for (int i = 0; i < 20; i++) {
    set(SIGALRM, i & 1 ? SA_ONSTACK : 0);
    if (sigsetjmp(back, 1) == 0) {
      struct itimerval timer = {{0, 0}, {0, 1000}};
      CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
      for (;;) pause();
    }
    CHECK(on_own_stack == (i & 1));
    jumps++;
  }
  printf("%d jumps\n", jumps);

  set(SIGSEGV, SA_ONSTACK);
  for (volatile int i = 0; i < 5; i++)
    if (sigsetjmp(back, 1) == 0) *(volatile int*)8 = 1;
    else jumps++;
  set(SIGFPE, 0);
  volatile int zero = 0;
  if (sigsetjmp(back, 1) == 0) printf("%d\n", 1 / zero);
  else jumps++;
  page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  page[100] = 42;
  CHECK(page[100] == 42);
  printf("%d jumps\n", jumps);
  return success();
}
