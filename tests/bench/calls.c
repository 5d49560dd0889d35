// Measures what a system call costs, natively or recorded: times loops of each of three calls and prints "NAME NS" for each round.
//
//   calls ROUNDS ITERATIONS
//
// getppid does nearly nothing in the kernel; pipe is a read of 64 bytes that are available (the writes are not timed); clock is
// clock_gettime(CLOCK_MONOTONIC), which natively does not enter the kernel. The thread's processor time is measured: in wall-clock
// time a recorded loop, which takes longer, would contain more of the time of other processes on the core.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kBytes = 64, kBatch = 256 };  // kBytes * kBatch fits in a pipe

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_getppid(long iterations) {
  double start = now_ns();
  for (long i = 0; i < iterations; i++) getppid();
  return (now_ns() - start) / (double)iterations;
}

static double time_clock(long iterations) {
  struct timespec t;
  double start = now_ns();
  for (long i = 0; i < iterations; i++) clock_gettime(CLOCK_MONOTONIC, &t);
  return (now_ns() - start) / (double)iterations;
}

static double time_pipe(long iterations) {
  int ends[2];
  char bytes[kBytes] = {0};
  double spent = 0;
  long done = 0;
  if (pipe(ends) != 0) exit(1);
  for (; done < iterations; done += kBatch) {
    for (int i = 0; i < kBatch; i++)
      if (write(ends[1], bytes, kBytes) != kBytes) exit(1);
    double start = now_ns();
    for (int i = 0; i < kBatch; i++)
      if (read(ends[0], bytes, kBytes) != kBytes) exit(1);
    spent += now_ns() - start;
  }
  close(ends[0]);
  close(ends[1]);
  return spent / (double)done;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  long rounds = atol(argv[1]), iterations = atol(argv[2]);
  for (long i = 0; i < rounds; i++)
    printf("getppid %.2f\npipe %.2f\nclock %.2f\n", time_getppid(iterations), time_pipe(iterations), time_clock(iterations));
  return 0;
}
