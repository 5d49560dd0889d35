// Five thousand threads one after the other, as in a server that makes one for each request.
#include <pthread.h>

#include "check.h"

static void* work(void* number) { return number; }

int main(void) {
  for (long i = 0; i < 5000; i++) {
    pthread_t thread;
    void* result;
    CHECK(pthread_create(&thread, NULL, work, (void*)i) == 0 && pthread_join(thread, &result) == 0 && (long)result == i);
  }
  return success();
}
