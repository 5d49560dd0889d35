// A loop that only reads is passed at once the first time, and waits for another thread the second time. When it begins, all registers and flags
// are the same both times, and as in the loop. A second loop reads in a function, and a call stands right behind it, whose return address lies
// where that of the function in the loop was. The function compares often, so that the thread mostly waits in it, where no register tells which
// value it will find.
#include <pthread.h>
#include <sched.h>

#include "check.h"

volatile int flag, passes;
const int three = 3;
void wait_five(void);
__asm__(".text\n.globl wait_five, passed_five\n.type wait_five, @function\n"
        "wait_five: cmpl $5, three(%rip)\n"
        "1: cmpl $5, flag(%rip)\n"
        "jne 1b\n"
        "passed_five: ret\n"
        ".size wait_five, . - wait_five\n");
void wait_five_in_function(void);
__asm__(".text\n.globl wait_five_in_function\n.type wait_five_in_function, @function\n"
        "wait_five_in_function: cmpl $5, three(%rip)\n"
        "1: call look\n"
        "jne 1b\n"
        "call count_pass\n"
        "ret\n"
        "look:\n"
        ".rept 16\ncmpl $5, three(%rip)\n.endr\n"
        "cmpl $5, flag(%rip)\n"
        "ret\n"
        "count_pass: incl passes(%rip)\n"
        "ret\n"
        ".size wait_five_in_function, . - wait_five_in_function\n");

static void* raise_flag(void* unused) {
  while (flag != 3) sched_yield();
  flag = 5;
  return unused;
}

static void pass_and_wait(void (*wait)(void)) {
  pthread_t thread;
  flag = 0;
  CHECK(pthread_create(&thread, NULL, raise_flag, NULL) == 0);
  flag = 5;
  wait();
  flag = 3;
  wait();
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
  pass_and_wait(wait_five);
  pass_and_wait(wait_five_in_function);
  CHECK(passes == 2);
  return success();
}
