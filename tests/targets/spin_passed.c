// A loop that only reads is passed at once the first time, and waits for another thread the second time. When it begins, all registers and flags
// are the same both times, and as in the loop.
#include <pthread.h>
#include <sched.h>

#include "check.h"

volatile int flag;
const int three = 3;
void wait_five(void);
__asm__(".text\n.globl wait_five, passed_five\n.type wait_five, @function\n"
        "wait_five: cmpl $5, three(%rip)\n"
        "1: cmpl $5, flag(%rip)\n"
        "jne 1b\n"
        "passed_five: ret\n"
        ".size wait_five, . - wait_five\n");

static void* raise_flag(void* unused) {
  while (flag != 3) sched_yield();
  flag = 5;
  return unused;
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, raise_flag, NULL) == 0);
  flag = 5;
  wait_five();
  flag = 3;
  wait_five();
  CHECK(pthread_join(thread, NULL) == 0);
  return success();
}
