// Every way to ask for the time, in a loop and around a sleep; no clock may go back.
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include "check.h"

static long long now(clockid_t clock) {
  struct timespec t;
  CHECK(clock_gettime(clock, &t) == 0);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
  long long last = 0, sum = 0;
  for (int i = 0; i < 100000; i++) {
    long long t = now(CLOCK_MONOTONIC);
    CHECK(t >= last);
    sum ^= last = t;
  }
  const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
                              CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
  for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
    struct timespec resolution;
    CHECK(clock_getres(clocks[i], &resolution) == 0);
    long long first = now(clocks[i]), second = now(clocks[i]);
    CHECK(second >= first);
  }
  struct timeval day;
  CHECK(gettimeofday(&day, NULL) == 0);
  time_t t = time(NULL);
  CHECK(t - day.tv_sec <= 1);
  long long before = now(CLOCK_MONOTONIC);
  struct timespec nap = {0, 3000000};
  CHECK(nanosleep(&nap, NULL) == 0);
  CHECK(now(CLOCK_MONOTONIC) - before >= nap.tv_nsec);
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
  struct tms used;
  CHECK(times(&used) != (clock_t)-1);
  printf("%lld %ld.%06ld\n", sum, (long)day.tv_sec, (long)day.tv_usec);
  return success();
}
