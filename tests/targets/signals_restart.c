// A signal during calls that block: with SA_RESTART they go on, without they fail with EINTR; sleeps and waits always do.
#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static int p[2], calls;

static void handler(int number) {
  int saved = errno;
  CHECK(number == SIGALRM && getpid() > 0);
  calls++;
  (void)!write(p[1], "x", 1);
  errno = saved;
}

static void quiet(int number) {
  (void)number;
  calls++;
}

static void set(void (*what)(int), int flags) {
  struct sigaction action = {.sa_handler = what, .sa_flags = flags};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
}

static void alarm_in(int ms) {
  struct itimerval timer = {{0, 0}, {0, ms * 1000}};
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

int main(void) {
  char byte;
  CHECK(pipe(p) == 0);
  set(handler, SA_RESTART);
  alarm_in(3);
  CHECK(read(p[0], &byte, 1) == 1 && calls == 1);

  set(quiet, 0);
  alarm_in(3);
  CHECK(read(p[0], &byte, 1) == -1 && errno == EINTR && calls == 2);

  alarm_in(3);
  struct timespec nap = {5, 0}, rest;
  CHECK(nanosleep(&nap, &rest) == -1 && errno == EINTR && rest.tv_sec == 4 && calls == 3);
  alarm_in(3);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, &rest) == EINTR && rest.tv_sec == 4 && calls == 4);

  set(quiet, SA_RESTART);
  struct pollfd waiting = {p[0], POLLIN, 0};
  alarm_in(3);
  CHECK(poll(&waiting, 1, 5000) == -1 && errno == EINTR && calls == 5);
  fd_set set_of;
  FD_ZERO(&set_of);
  FD_SET(p[0], &set_of);
  struct timeval limit = {5, 0};
  alarm_in(3);
  CHECK(select(p[0] + 1, &set_of, NULL, NULL, &limit) == -1 && errno == EINTR && calls == 6);
  alarm_in(3);
  CHECK(pause() == -1 && errno == EINTR && calls == 7);

  pid_t child = fork();
  if (child == 0) {
    usleep(20000);
    _exit(3);
  }
  int status;
  alarm_in(3);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 && calls == 8);
  printf("%d\n", calls);
  return success();
}
