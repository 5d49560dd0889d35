// Interval timers: setitimer, alarm, timer_create, and SIGCHLD, in a program that computes between its calls.
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static volatile int ticks, children;

static void tick(int number) {
  (void)number;
  ticks++;
}
static void child_ended(int number) {
  (void)number;
  int status;
  while (waitpid(-1, &status, WNOHANG) > 0) children++;
}

int main(void) {
  signal(SIGALRM, tick);
  struct itimerval every = {{0, 2000}, {0, 2000}}, rest;
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  unsigned long work = 0;
  while (ticks < 20) {
    for (int i = 0; i < 10000; i++) work = work * 31 + (unsigned)i;
    getppid();
  }
  CHECK(getitimer(ITIMER_REAL, &rest) == 0 && rest.it_interval.tv_usec == 2000);
  memset(&every, 0, sizeof every);
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0 && alarm(100) == 0 && alarm(0) > 0);

  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  struct itimerspec soon = {{0, 0}, {0, 2000000}};
  int before = ticks;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
  while (ticks == before) getppid();
  CHECK(timer_delete(timer) == 0);

  signal(SIGCHLD, child_ended);
  for (int i = 0; i < 5; i++)
    if (fork() == 0) _exit(0);
  while (children < 5) usleep(1000);
  printf("%d\n", children);
  return success();
}
