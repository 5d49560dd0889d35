// A loop that waits for another thread and counts how often it goes round, in memory: wherever one stands in it the registers are the
// same, so they do not name the place. It ends by itself if it is not interrupted; the replay must count as far.
#include <pthread.h>

#include "check.h"

static volatile int flag;
static volatile long counter;

static void* raise_flag(void* unused) {
  flag = 1;
  return unused;
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, raise_flag, NULL) == 0);
  while (!flag && counter < 30000000) counter++;
  printf("%ld\n", counter);
  CHECK(pthread_join(thread, NULL) == 0 && flag == 1);
  return success();
}
