// Measures the least time of a tracer's operations, with its child on the same processor. Prints for each the nanoseconds of the fastest round:
//
//   a stop: the child hits an int3; the tracer waits for it, reads and writes its registers and continues it
//   a call: the child waits in the kernel; the tracer stops it, makes it call a function that returns to an int3, and restores all of its
//           registers
//   a read: the tracer reads 8 bytes of the child's memory
//
//   trap COUNT
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 5 };

static volatile long counter = 7;
static int memory;

__attribute__((noinline, used)) static long sum(long a, long b) { return a + b; }
void landing(void);
__asm__(".text\nlanding: int3\n");

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int stopped(pid_t child) {
  int status;
  return waitpid(child, &status, __WALL) == child && WIFSTOPPED(status);
}

static int stop(pid_t child) {
  struct user_regs_struct registers;
  return !ptrace(PTRACE_CONT, child, 0, 0) && stopped(child) && !ptrace(PTRACE_GETREGS, child, 0, &registers) &&
         !ptrace(PTRACE_SETREGS, child, 0, &registers);
}

static int call(pid_t child) {
  static char vectors[16384];
  struct iovec area = {vectors, sizeof vectors};
  struct user_regs_struct home, there, result;
  const unsigned long back = (unsigned long)landing;
  if (ptrace(PTRACE_INTERRUPT, child, 0, 0) || !stopped(child)) return 0;
  if (ptrace(PTRACE_GETREGS, child, 0, &home) || ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &area)) return 0;
  there = home;
  there.rsp = ((home.rsp - 4096) & ~15ul) - 8;
  there.rip = (unsigned long)sum;
  there.rdi = 3, there.rsi = 4, there.orig_rax = ~0ul;
  if (pwrite(memory, &back, sizeof back, (off_t)there.rsp) != sizeof back) return 0;
  if (ptrace(PTRACE_SETREGS, child, 0, &there) || ptrace(PTRACE_CONT, child, 0, 0) || !stopped(child)) return 0;
  if (ptrace(PTRACE_GETREGS, child, 0, &result) || result.rax != 7) return 0;
  if ((long)home.orig_rax >= 0 && (long)home.rax <= -512) home.rax = (unsigned long)-EINTR;  // the result of the call in which it waited
  home.orig_rax = ~0ul;
  return !ptrace(PTRACE_SETREGS, child, 0, &home) && !ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &area) && !ptrace(PTRACE_CONT, child, 0, 0);
}

static int read_one(pid_t child) {
  (void)child;
  long value = 0;
  return pread(memory, &value, sizeof value, (off_t)&counter) == sizeof value && value == counter;
}

// The nanoseconds of the fastest one; 0 if it failed.
static double least_of(int (*one)(pid_t), pid_t child, long count) {
  double least = 0;
  for (int round = 0; round < kRounds; round++) {
    const double start = now();
    for (long i = 0; i < count; i++)
      if (!one(child)) return 0;
    const double each = (now() - start) / (double)count;
    if (!round || each < least) least = each;
  }
  return least;
}

// Starts a child that calls `work` for ever once it is seized.
static pid_t start(void (*work)(void)) {
  int gate[2];
  if (pipe(gate)) return -1;
  const pid_t child = fork();
  if (child == 0) {
    char open;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(gate[0], &open, 1) != 1) _exit(1);
    for (;;) work();
  }
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/mem", child);
  const int good = child > 0 && !ptrace(PTRACE_SEIZE, child, 0, 0) && (memory = open(name, O_RDWR | O_CLOEXEC)) >= 0 && write(gate[1], "g", 1) == 1;
  close(gate[0]);
  close(gate[1]);
  return good ? child : -1;
}

static void trap(void) { __asm__ volatile("int3"); }
static void wait_for_ever(void) { pause(); }

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const long count = atol(argv[1]);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((unsigned)sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one)) return 1;
  double found[3] = {0};
  for (int kind = 0; kind < 2; kind++) {
    const pid_t child = start(kind ? wait_for_ever : trap);
    if (child < 0) return 1;
    if (kind || stopped(child)) found[kind] = least_of(kind ? call : stop, child, count);
    if (kind) found[2] = least_of(read_one, child, count);
    kill(child, SIGKILL);
    waitpid(child, NULL, __WALL);
    close(memory);
  }
  if (!found[0] || !found[1] || !found[2]) return 1;
  printf("%.0f %.0f %.0f\n", found[0], found[1], found[2]);
  return 0;
}
