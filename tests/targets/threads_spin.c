// Threads that wait without any call: with the `pause` instruction, and by nothing but reading.
#include <pthread.h>
#include <sched.h>

#include "check.h"

static volatile int flag;

static void* raise_flag(void* value) {
  while (flag != (int)(long)value - 1) sched_yield();
  flag = (int)(long)value;
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, raise_flag, (void*)(i * 2 + 1)) == 0);
  while (flag != 1) __builtin_ia32_pause();
  flag = 2;
  while (flag != 3) __builtin_ia32_pause();
  flag = 4;
  while (flag != 5) {
  }
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%d\n", flag);
  return success();
}
