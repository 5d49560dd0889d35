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

static void alarm_every(int ms, int first) {
  const struct itimerval timer = {{0, ms * 1000}, {0, first * 1000}};
  calls = 0;
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

// Again and again, as the first one may come before the call.
static void alarms(void) { alarm_every(3, 3); }

// Whether one came since.
static int alarmed(void) {
  const int number = errno, came = calls > 0;
  alarm_every(0, 0);
  errno = number;
  return came;
}

int main(void) {
  char byte;
  CHECK(pipe(p) == 0);
  set(handler, SA_RESTART);
  alarm_every(0, 3);  // one, as each writes a byte
  CHECK(read(p[0], &byte, 1) == 1 && alarmed());

  set(quiet, 0);
  alarms();
  CHECK(read(p[0], &byte, 1) == -1 && errno == EINTR && alarmed());

  alarms();
  struct timespec nap = {5, 0}, rest;
  CHECK(nanosleep(&nap, &rest) == -1 && errno == EINTR && rest.tv_sec == 4 && alarmed());
  alarms();
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, &rest) == EINTR && rest.tv_sec == 4 && alarmed());

  set(quiet, SA_RESTART);
  struct pollfd waiting = {p[0], POLLIN, 0};
  alarms();
  CHECK(poll(&waiting, 1, 5000) == -1 && errno == EINTR && alarmed());
  fd_set set_of;
  FD_ZERO(&set_of);
  FD_SET(p[0], &set_of);
  struct timeval limit = {5, 0};
  alarms();
  CHECK(select(p[0] + 1, &set_of, NULL, NULL, &limit) == -1 && errno == EINTR && alarmed());
  alarms();
  CHECK(pause() == -1 && errno == EINTR && alarmed());

  pid_t child = fork();
  if (child == 0) {
    CHECK(read(p[0], &byte, 1) == 1);  // what the handler writes
    _exit(3);
  }
  int status;
  set(handler, SA_RESTART);
  alarm_every(0, 3);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 && alarmed());
  return success();
}
