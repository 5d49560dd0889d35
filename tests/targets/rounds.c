// Three processes hand a number round by pipes. Each waits for it in one of two functions in turn, which make the system calls
// themselves: where a process stands shows in which local variable is there.
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { kProcesses = 3, kRounds = 200 };

volatile long turns;

static inline __attribute__((always_inline)) long transfer(long call, int fd, volatile long* number) {
  long result = call;
  __asm__ volatile("syscall" : "+a"(result) : "D"((long)fd), "S"(number), "d"(sizeof *number) : "rcx", "r11", "memory");
  return result;
}

__attribute__((noinline)) void pass(void) { turns++; }

// The number received in an even round, and in an odd one; each is sent on, one greater.
__attribute__((noinline)) static int even(int in, int out) {
  volatile long even_number = 2 * turns;
  volatile long number = 0;
  pass();
  if (transfer(SYS_read, in, &number) != sizeof number) return 0;
  even_number += number++;
  return transfer(SYS_write, out, &number) == sizeof number && even_number > 0;
}

__attribute__((noinline)) static int odd(int in, int out) {
  volatile long number = 0;
  volatile long odd_number = 3 * turns;
  pass();
  if (transfer(SYS_read, in, &number) != sizeof number) return 0;
  odd_number += number++;
  return transfer(SYS_write, out, &number) == sizeof number && odd_number > 0;
}

int main(void) {
  int pipes[kProcesses][2];
  for (int i = 0; i < kProcesses; i++) CHECK(pipe(pipes[i]) == 0);
  int self = 0;
  for (int i = 1; i < kProcesses && self == 0; i++) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) self = i;
  }
  const int in = pipes[self][0], out = pipes[(self + 1) % kProcesses][1];
  volatile long first = 1;
  if (self == 0) CHECK(transfer(SYS_write, pipes[0][1], &first) == sizeof first);
  for (int round = 0; round < kRounds; round++) CHECK(round % 2 ? odd(in, out) : even(in, out));
  if (self) _exit(0);
  for (int i = 1; i < kProcesses; i++) {
    int status = -1;
    CHECK(wait(&status) > 0 && status == 0);
  }
  return success();
}
