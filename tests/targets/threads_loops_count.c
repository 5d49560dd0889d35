// Threads that wait for each other without a call, in loops that change something all the while: a count in a register or in memory,
// an inner loop of so many tries within an outer one, an array, a lock that is tried. What they counted is printed: a replay
// must come to the same.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"

static volatile int stage;
static volatile unsigned long turns;
static volatile int lock_word;
static struct {
  char pad[64];
  _Atomic unsigned long pending;
} slots[4];
static unsigned long counted[16];
static volatile unsigned long in_memory;
static unsigned char ring[256];

static void check_stage(int want) { CHECK(stage == want); }

static unsigned long in_register(void) {
  unsigned long n = 0;
  while (stage == 0) n++;
  return n;
}

__attribute__((optimize("O0"))) static unsigned long unoptimised(volatile int* where) {
  unsigned long n = 0;
  while (*where == 2) n++;
  return n;
}

// As Redis's IOThreadMain does.
__attribute__((noinline)) static unsigned long tries(int id) {
  unsigned long rounds = 0;
  for (;;) {
    for (int j = 0; j < 100000; j++)
      if (atomic_load_explicit(&slots[id].pending, memory_order_relaxed) != 0) break;
    rounds++;
    if (atomic_load_explicit(&slots[id].pending, memory_order_relaxed) != 0) return rounds;
  }
}

static unsigned long stores(void) {
  unsigned long n = 0;
  for (; stage == 6; n++) ring[n % sizeof ring] ^= (unsigned char)n;
  return n;
}

static unsigned long takes_lock(void) {
  unsigned long n = 0;
  while (lock_word || __atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE)) n++;
  return n;
}

static void* other(void* unused) {
  (void)unused;
  stage = 1;  // the first waits are the main thread's
  while (stage == 1) in_memory++;
  stage = 3;
  counted[8] = tries(1);
  stage = 5;
  while (stage == 5) in_memory++;
  stage = 7;
  counted[9] = takes_lock();
  lock_word = 0;
  // They take turns.
  for (unsigned long i = 0; i < 2000; i++) {
    while (turns % 2 == 0) counted[10]++;
    turns++;
  }
  return NULL;
}

static volatile sig_atomic_t alarms;
static void on_alarm(int number) {
  (void)number;
  alarms++;
}

// A handler comes where the program makes no call.
static unsigned long until_alarms(int want) {
  unsigned long n = 0;
  while (alarms < want) n++;
  return n;
}

int main(void) {
  pthread_t thread;
  lock_word = 1;
  CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
  counted[0] = in_register();
  check_stage(1);
  stage = 2;
  counted[1] = unoptimised(&stage);
  check_stage(3);
  atomic_store(&slots[1].pending, 1);
  while (stage == 3) counted[2]++;
  check_stage(5);
  stage = 6;
  counted[3] = stores();
  check_stage(7);
  lock_word = 0;
  for (unsigned long i = 0; i < 2000; i++) {
    while (turns % 2 == 1) counted[4]++;
    turns++;
  }
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(turns == 4000);
  signal(SIGALRM, on_alarm);
  const struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  counted[5] = until_alarms(5);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  unsigned long sum = 0;
  for (unsigned i = 0; i < sizeof ring; i++) sum += ring[i];
  for (unsigned i = 0; i < 16; i++) printf("%lu ", counted[i]);
  printf("%lu %lu\n", in_memory, sum);
  return success();
}
