// Threads that wait for each other without a system call, in loops around functions: by what a function returns, by what it
// stores through a pointer to the stack, and where the loop calls on some rounds only. Each function counts how often it is
// asked, so no round is like the one before it. What was counted is printed: a replay must come to the same.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "check.h"

enum { kTurns = 300 };
static _Atomic long turn;
static unsigned long asked[8];
static volatile int is_done;

__attribute__((noinline)) static int is_turn(long of) {
  asked[0]++;
  return atomic_load_explicit(&turn, memory_order_relaxed) % 2 == of;
}
// As MPI_Test: there is an error, which never comes, and the answer.
__attribute__((noinline)) static int test_turn(long of, int* answer) {
  asked[1]++;
  *answer = atomic_load_explicit(&turn, memory_order_relaxed) % 2 == of;
  return turn < 0;
}
__attribute__((noinline)) static void rarely(void) { asked[2]++; }

__attribute__((noinline, optimize("O2"))) static void wait_for_result(long of) {
  while (!is_turn(of)) asked[3]++;
}

__attribute__((noinline, optimize("O2"))) static int wait_for_answer(long of) {
  int answer = 0;
  while (!answer) {
    const int error = test_turn(of, &answer);
    if (error) return error;
  }
  return 0;
}

__attribute__((noinline, optimize("O0"))) static int wait_unoptimised(long of) {
  int answer = 0, error = 0;
  while (!answer) {
    error = test_turn(of, &answer);
    if (error != 0) break;
  }
  return error;
}

__attribute__((noinline, optimize("O2"))) static void wait_for_memory(long of) {
  unsigned long rounds = 0;
  while (atomic_load_explicit(&turn, memory_order_relaxed) % 2 != of)
    if (rounds++ % 64 == 0) rarely();
  asked[4] += rounds;
}

static void take_turns(long of) {
  for (long i = 0; i < kTurns; i++) {
    switch (i % 4) {
      case 0: wait_for_result(of); break;
      case 1: CHECK(wait_for_answer(of) == 0); break;
      case 2: CHECK(wait_unoptimised(of) == 0); break;
      default: wait_for_memory(of);
    }
    atomic_fetch_add(&turn, 1);
  }
}

// The address of a flag on the stack of another thread.
static void* set_flag(void* flag) {
  take_turns(1);
  *(volatile int*)flag = 1;
  while (!is_done) asked[5]++;
  return NULL;
}

int main(void) {
  pthread_t thread;
  volatile int flag = 0;
  unsigned long rounds = 0;
  CHECK(pthread_create(&thread, NULL, set_flag, (void*)&flag) == 0);
  take_turns(0);
  while (!flag) rounds++;
  is_done = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(turn == 2 * kTurns);
  for (unsigned i = 0; i < 8; i++) printf("%lu ", asked[i]);
  printf("%lu\n", rounds);
  return success();
}
