// The main thread ends by pthread_exit before the others, which go on for a while: the process has no first thread any more. Its argument
// goes into memory.
#include <pthread.h>
#include <sched.h>

#include "check.h"

static volatile unsigned counter, kept[64];
static pthread_t main_thread;

static void* count(void* last) {
  CHECK(pthread_join(main_thread, NULL) == 0);
  for (int i = 0; i < 300; i++) {
    CHECK(getppid() > 0);
    counter++;
    sched_yield();
  }
  if (!last) return NULL;
  CHECK(pthread_join(*(pthread_t*)last, NULL) == 0);
  exit(success());
}

static void* join(void* thread) {
  (void)thread;
  for (int i = 0; i < 300; i++) {
    CHECK(getppid() > 0);
    counter++;
    sched_yield();
  }
  return NULL;
}

int main(int argc, char** argv) {
  static pthread_t first, second;
  for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++) kept[i] = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
  main_thread = pthread_self();
  CHECK(pthread_create(&first, NULL, join, NULL) == 0);
  CHECK(pthread_create(&second, NULL, count, &first) == 0);
  pthread_exit(NULL);
}
