// Signals for a thread that has its turn back, computes, and makes a call: each is delivered there, not where it had given the turn away.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "check.h"

enum { kRounds = 60, kSteps = 1000000 };

static volatile int asked;
static volatile long step, hits, seen;

static void on_alarm(int number) {
  CHECK(number == SIGALRM);
  hits++;
  seen += step;
}

static void set_alarms(int microseconds) {
  const struct itimerval every = {{0, microseconds}, {0, microseconds}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void* answers(void* unused) {
  for (int i = 0; i < kRounds; i++) {
    while (!asked) __builtin_ia32_pause();
    asked = 0;
  }
  return unused;
}

int main(void) {
  pthread_t other;
  sigset_t alarm;
  CHECK(sigemptyset(&alarm) == 0 && sigaddset(&alarm, SIGALRM) == 0 && signal(SIGALRM, on_alarm) != SIG_ERR);
  CHECK(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0 && pthread_create(&other, NULL, answers, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
  set_alarms(3000);
  for (int i = 0; i < kRounds; i++) {
    asked = 1;
    while (asked) __builtin_ia32_pause();
    for (step = 0; step < kSteps; step++) {}
    CHECK(getppid() > 0);
  }
  set_alarms(0);
  CHECK(pthread_join(other, NULL) == 0 && hits > 0);
  printf("%ld alarms, the last ones at %ld\n", hits, seen);
  return success();
}
