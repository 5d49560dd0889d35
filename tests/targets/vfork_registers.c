// A child by vfork computes with vectors and floating point of its own, in a thread too: its parent has its registers as they were.
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include "check.h"

// vfork as an instruction, so that xmm5 lives across it; the child clears it and ends.
__attribute__((noinline)) static pid_t child_clears(unsigned long value, unsigned long* after) {
  long child;
  __asm__ volatile(
      "movq %2, %%xmm5; mov $58, %%eax; syscall\n"
      "test %%rax, %%rax; jnz 1f\n"
      "pxor %%xmm5, %%xmm5; xor %%edi, %%edi; mov $60, %%eax; syscall\n"
      "1: movq %%xmm5, %1\n"
      : "=&a"(child), "=&r"(*after)
      : "r"(value)
      : "rcx", "r11", "rdi", "xmm5", "memory", "cc");
  return (pid_t)child;
}

// Of both units: MXCSR and the x87 control word.
enum { NEAREST = 0, DOWNWARD = 1, UPWARD = 2 };
static void round_to(unsigned mode) {
  const unsigned vector = 0x1f80 | mode << 13;
  const unsigned short x87 = (unsigned short)(0x37f | mode << 10);
  __asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(vector), "m"(x87));
}
static unsigned rounding(void) {
  unsigned vector;
  unsigned short x87;
  __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(vector), "=m"(x87));
  return vector >> 13 << 2 | x87 >> 10;
}

static void ended(pid_t child) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void* spawn(void* unused) {
  char *echo[] = {"true", NULL}, *nothing[] = {NULL};
  pid_t child;
  CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, echo, nothing) == 0);
  ended(child);
  return unused;
}

int main(void) {
  unsigned long after = 0;
  ended(child_clears(0x1122334455667788, &after));
  printf("%lx\n", after);

  round_to(DOWNWARD);
  pid_t child = vfork();
  if (child == 0) {
    round_to(UPWARD);
    _exit(0);
  }
  printf("%x\n", rounding());
  ended(child);
  round_to(NEAREST);

  // What is called first behind it leaves all vector registers on the stack (_dl_runtime_resolve).
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, spawn, NULL) == 0 && pthread_join(thread, NULL) == 0);
  return success();
}
