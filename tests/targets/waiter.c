// A thread that sleeps a millisecond, COUNT times, while another is busy in the way that the first argument names. It prints how much
// longer than asked it slept, in microseconds: the median, and what one in a hundred exceeds.
#include <pthread.h>
#include <time.h>

#include "check.h"

static const char* how;
static volatile int stop;
static volatile long sum;

static void* be_busy(void* unused) {
  int ends[2];
  char byte = 'x';
  CHECK(pipe(ends) == 0);
  while (!stop) {
    if (!strcmp(how, "calls")) getppid();
    if (!strcmp(how, "compute")) for (int i = 0; i < 20000; i++) sum += i;
    if (!strcmp(how, "compute")) getppid();
    if (!strcmp(how, "blocking")) CHECK(write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1);
    if (!strcmp(how, "pause")) while (!stop) __builtin_ia32_pause();
    if (!strcmp(how, "spin")) while (!stop) {}
  }
  return unused;
}

static long now(void) {
  struct timespec t;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int less(const void* a, const void* b) { return (*(const long*)a > *(const long*)b) - (*(const long*)a < *(const long*)b); }

int main(int argc, char** argv) {
  CHECK(argc == 3);
  how = argv[1];
  const int count = atoi(argv[2]);
  long* late = calloc((size_t)count, sizeof *late);
  pthread_t other;
  CHECK(count > 0 && late && pthread_create(&other, NULL, be_busy, NULL) == 0);
  for (int i = 0; i < count; i++) {
    const long from = now();
    CHECK(nanosleep(&(struct timespec){0, 1000000}, NULL) == 0);
    late[i] = now() - from - 1000;
  }
  stop = 1;
  CHECK(pthread_join(other, NULL) == 0);
  qsort(late, (size_t)count, sizeof *late, less);
  CHECK(late[0] >= 0);
  printf("%ld %ld\n", late[count / 2], late[count - 1 - count / 100]);
  free(late);
  return success();
}
