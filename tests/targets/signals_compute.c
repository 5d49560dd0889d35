// Signals for threads that make no call: they wait for a handler in a loop, by reading alone, by `pause`, by the time-stamp counter, or
// they compute for a while.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <x86intrin.h>

#include "check.h"

static volatile sig_atomic_t seen;
static volatile long shared;
static sigjmp_buf away;

static void handler(int number) {
  (void)number;
  seen++;
}
static void leave(int number) { siglongjmp(away, number); }

static void soon(void) {
  struct itimerval when = {{0, 0}, {0, 3000}};
  seen = 0;
  CHECK(setitimer(ITIMER_REAL, &when, NULL) == 0);
}

// What stands in registers and on the stack must be there afterwards.
__attribute__((noinline)) static double wait_with_values(double a, double b) {
  double sum = a * b;
  while (!seen) {
  }
  return sum + a;
}

static void* wait_for_handler(void* unused) {
  while (!seen) {
  }
  shared++;
  return unused;
}

int main(void) {
  CHECK(signal(SIGALRM, handler) != SIG_ERR && signal(SIGUSR1, handler) != SIG_ERR);
  for (int i = 0; i < 3; i++) {
    soon();
    CHECK(wait_with_values(1.5, 2.0) == 4.5 && seen == 1);
  }
  soon();
  while (!seen) __builtin_ia32_pause();
  soon();
  unsigned long long start = __rdtsc();
  while (!seen) CHECK(__rdtsc() >= start);
  // A loop that is none of these, then one that is.
  soon();
  for (long i = 0; i < 20000000; i++) shared += i;
  while (!seen) {
  }
  // Away from the loop by a jump.
  CHECK(signal(SIGALRM, leave) != SIG_ERR);
  for (int i = 0; i < 3; i++) {
    if (sigsetjmp(away, 1) == 0) {
      soon();
      for (;;) {
      }
    }
  }
  // Two threads that wait, and one that sends.
  CHECK(signal(SIGALRM, handler) != SIG_ERR);
  pthread_t threads[2];
  seen = 0, shared = 0;
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, wait_for_handler, NULL) == 0);
  CHECK(pthread_kill(threads[0], SIGUSR1) == 0);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(shared == 2);
  return success();
}
