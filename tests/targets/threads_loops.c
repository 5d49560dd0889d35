// Loops without any call, and without `pause`, that end when another thread stores something: by a function, with a lock that is
// tried again and again, with the same registers as when what they wait for was there already.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

static volatile int flag, passed;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static volatile long guarded;

__attribute__((noinline)) static int ready(int value) { return flag == value; }

__attribute__((noinline)) static void wait_by_function(int value) {
  while (!ready(value)) {
  }
}

__attribute__((noinline)) static void wait_plainly(int value) {
  while (flag != value) {
  }
}

static void* answer(void* unused) {
  (void)unused;
  for (int value = 1; value < 12; value += 2) {
    while (flag != value) sched_yield();
    passed++;
    flag = value + 1;
  }
  return NULL;
}

static void* add(void* unused) {
  (void)unused;
  for (int i = 0; i < 20; i++) {
    while (atomic_flag_test_and_set(&lock)) {
    }
    long before = guarded;
    if (i % 4 == 0) sched_yield();
    guarded = before + 1;
    atomic_flag_clear(&lock);
  }
  return NULL;
}

int main(void) {
  pthread_t thread, adders[3];
  CHECK(pthread_create(&thread, NULL, answer, NULL) == 0);
  for (int value = 2; value <= 12; value += 2) {
    flag = value;
    wait_plainly(value);  // passes at once, with the registers of the wait below
    flag = value - 1;
    if (value % 4) wait_plainly(value);
    else wait_by_function(value);
    CHECK(passed == value / 2);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&adders[i], NULL, add, NULL) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(adders[i], NULL) == 0);
  CHECK(guarded == 60);
  return success();
}
