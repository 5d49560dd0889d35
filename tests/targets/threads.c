// Eight threads add to one counter under a lock; each returns a value.
#include <pthread.h>

#include "check.h"

enum { kThreads = 8, kTurns = 20000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;
static __thread long own;

static void* work(void* number) {
  for (int i = 0; i < kTurns; i++) {
    pthread_mutex_lock(&lock);
    counter++;
    pthread_mutex_unlock(&lock);
    own++;
    if (i % 1000 == 0) (void)!write(-1, "", 0);
  }
  CHECK(own == kTurns);
  return (void*)((long)number * 2);
}

int main(void) {
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  for (long i = 0; i < kThreads; i++) {
    void* result;
    CHECK(pthread_join(threads[i], &result) == 0 && (long)result == i * 2);
  }
  printf("%ld\n", counter);
  return success();
}
