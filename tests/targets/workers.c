// Four named threads that take turns: each counts in a thread-local variable and in a global one. For the debugger there are
// functions besides that nobody calls: one that crashes, one that blocks, one that never ends, one that makes system calls.
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

enum { kThreads = 4, kTurns = 25 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;
long total;
__thread long own;

__attribute__((noinline)) void turn(long number, int i) {
  pthread_mutex_lock(&lock);
  total += number;
  own += number;
  pthread_mutex_unlock(&lock);
  CHECK(own == 1000 * number + (i + 1) * number);
}

static void* work(void* argument) {
  const long number = (long)argument;
  char name[16];
  snprintf(name, sizeof name, "worker-%ld", number);
  CHECK(pthread_setname_np(pthread_self(), name) == 0);
  own = 1000 * number;
  for (int i = 0; i < kTurns; i++) {
    pthread_barrier_wait(&together);
    turn(number, i);
    pthread_barrier_wait(&together);
  }
  return NULL;
}

__attribute__((used)) int crash_now(int* nowhere) {
  total = -1;
  return *nowhere;
}

__attribute__((used)) int block_now(void) {
  total = -2;
  return pause();
}

__attribute__((used)) int spin_now(void) {
  for (volatile int i = 0;; i++) {}
}

__attribute__((used)) int abort_now(void) { abort(); }

// The number of calls that did as they should: of five.
__attribute__((used)) int calls_now(void) {
  int p[2], good = 0;
  char text[8] = "";
  good += pipe(p) == 0;
  good += write(p[1], "native", 6) == 6 && read(p[0], text, sizeof text) == 6 && strcmp(text, "native") == 0;
  good += close(p[0]) == 0 && close(p[1]) == 0;
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  good += page != MAP_FAILED && munmap(page, 4096) == 0;
  good += fork() == -1;
  return good;
}

int main(void) {
  pthread_t threads[kThreads];
  CHECK(pthread_barrier_init(&together, NULL, kThreads) == 0);
  for (long i = 0; i < kThreads; i++) CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  for (long i = 0; i < kThreads; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(total == kTurns * (1 + 2 + 3 + 4));
  return success();
}
