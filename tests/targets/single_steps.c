// A program that single-steps itself by the trap flag, as packers and in-process tracers do, also over its calls: each call does what it
// should, and the handler runs for the instructions around it. How many of them there are is printed: a call and what was moved with it
// count as one step while it is recorded, and the replay must count the same.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"

static __thread volatile long steps;
static void on_step(int signal, siginfo_t* info, void* context) {
  CHECK(signal == SIGTRAP && info->si_code == 2 /* TRAP_TRACE */ && context);
  steps++;
}

#define STEPPING_ON "pushfq; orq $0x100, (%%rsp); popfq;"
#define STEPPING_OFF "pushfq; andq $~0x100, (%%rsp); popfq;"
static inline void on(void) { __asm__ volatile(STEPPING_ON ::: "memory", "cc"); }
static inline void off(void) { __asm__ volatile(STEPPING_OFF ::: "memory", "cc"); }

static long call_of_its_own(long number) {
  long result;
  // The flag is off again in the instruction behind the next: a call may not swallow what follows it.
  __asm__ volatile(STEPPING_ON "syscall; nop; nop; nop; nop;" STEPPING_OFF : "=a"(result) : "a"(number) : "rcx", "r11", "memory", "cc");
  return result;
}

static void count(const char* what, long least) {
  CHECK(steps >= least);
  printf("%s: %ld\n", what, steps);
  steps = 0;
}

static void all(void) {
  const long parent = getppid(), self = getpid();
  on();
  const long by_function = syscall(SYS_getppid);
  off();
  CHECK(by_function == parent);
  count("by the library's function", 10);
  CHECK(call_of_its_own(SYS_getpid) == self);
  count("by an instruction", 5);
  struct timespec now = {0, 0};
  on();
  const int told = clock_gettime(CLOCK_MONOTONIC, &now);
  off();
  CHECK(told == 0 && now.tv_sec + now.tv_nsec > 0);
  count("the time", 5);
  on();
  raise(SIGUSR1);
  off();
  count("a signal to itself", 20);
}

static void nothing(int signal) { CHECK(signal == SIGUSR1); }
static void* in_thread(void* unused) {
  all();
  return unused;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, ignored = {.sa_handler = nothing};
  CHECK(sigaction(SIGTRAP, &action, NULL) == 0 && sigaction(SIGUSR1, &ignored, NULL) == 0);
  // Bound before it is stepped through: the first call of a function takes thousands of steps.
  (void)!syscall(SYS_getppid);
  all();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
  return success();
}
