// A program of many busy threads that replaces itself again and again, from its first thread and from another one in turn: the new
// program must run, whatever the others were about to do to the thread that makes the call.
#include <pthread.h>
#include <semaphore.h>

#include "check.h"

enum { kThreads = 20 };

static sem_t started;
static char** arguments;
static volatile long rounds;

static void* work(void* slow) {
  char pages[1 << 18];
  memset(pages, 1, sizeof pages);
  CHECK(sem_post(&started) == 0);
  for (;;) {
    if (slow) for (int i = 0; i < 100000; i++) rounds++;
    rounds += pages[getppid() & 0xffff];
  }
}

static void* replace(void* unused) {
  execv("/proc/self/exe", arguments);
  CHECK(!"the program has been replaced");
  return unused;
}

int main(int argc, char** argv) {
  const int left = argc > 1 ? atoi(argv[1]) : 1;
  if (left == 0) return success();
  char number[16];
  snprintf(number, sizeof number, "%d", left - 1);
  arguments = (char*[]){argv[0], number, NULL};
  pthread_t thread;
  CHECK(sem_init(&started, 0, 0) == 0);
  for (long i = 0; i < kThreads; i++) CHECK(pthread_create(&thread, NULL, work, (void*)(i & 1)) == 0);
  for (int i = 0; i < kThreads; i++) CHECK(sem_wait(&started) == 0);
  if (left % 2) {
    CHECK(pthread_create(&thread, NULL, replace, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  replace(NULL);
  return 1;
}
