// The module crashes when a number that differs from run to run is large enough; the outside aborts if it runs at
// replay.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long sums[4];
static long* current = sums;

__attribute__((noinline)) int module_step(long value) {
  *current += value & 15;
  if (*current > 200) current = NULL;
  return (int)(value & 3);
}

__attribute__((noinline)) long outside_value(void) {
  if (getenv("FRIDAY_CUT_REPLAY")) abort();
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_nsec / 64;
}

int main(void) {
  int sum = 0;
  for (int i = 0; i < 100000; i++) sum += module_step(outside_value());
  printf("%d\n", sum);
  return 0;
}
