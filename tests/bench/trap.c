// What a stop of a traced process costs at least: a child runs into COUNT breakpoints, and its tracer, on the same processor, waits,
// reads the registers, writes them and lets it go on. Prints the nanoseconds of one, the least of some rounds.
//
//   trap COUNT
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 5 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int serve_one(pid_t child) {
  int status;
  struct user_regs_struct registers;
  if (ptrace(PTRACE_CONT, child, 0, 0) || waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status)) return 0;
  return !ptrace(PTRACE_GETREGS, child, 0, &registers) && !ptrace(PTRACE_SETREGS, child, 0, &registers);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const long count = atol(argv[1]);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((unsigned)sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one)) return 1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) || raise(SIGSTOP)) _exit(1);
    for (;;) __asm__ volatile("int3");
  }
  int status, good = child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status);
  double least = 0;
  for (int round = 0; good && round < kRounds; round++) {
    const double start = now();
    for (long i = 0; good && i < count; i++) good = serve_one(child);
    const double each = (now() - start) / (double)count;
    if (!round || each < least) least = each;
  }
  if (child > 0) kill(child, SIGKILL);
  if (!good) return 1;
  printf("%.0f\n", least);
  return 0;
}
