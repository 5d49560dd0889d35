// Very many threads, of which few exist at a time, as in a server that makes one for each request: COUNT of them (5,000 if it is not
// given). One stays to the end. `unrecorded`: the recording ends first, at a child that shares the descriptors. With that or `asks` it says
// when they have ended, and goes on when its standard input ends.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { kAtATime = 8 };

static _Atomic long sum;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void* work(void* number) {
  if ((long)number % 64 == 0) CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
  sum += (long)number;
  return number;
}

static void* stay(void* barrier) {
  pthread_barrier_wait(barrier);
  return NULL;
}

static void join(pthread_t thread, long number) {
  void* result;
  CHECK(pthread_join(thread, &result) == 0 && (long)result == number);
}

static void end_recording(void) {
  const long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  CHECK(child > 0 && waitpid((pid_t)child, NULL, 0) == child);
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 5000;
  const char* how = argc > 2 ? argv[2] : "";
  if (!strcmp(how, "unrecorded")) end_recording();
  pthread_barrier_t end;
  CHECK(pthread_barrier_init(&end, NULL, 2) == 0);
  pthread_t staying, threads[kAtATime];
  CHECK(pthread_create(&staying, NULL, stay, &end) == 0);
  for (long i = 0; i < count; i++) {
    if (i >= kAtATime) join(threads[i % kAtATime], i - kAtATime);
    CHECK(pthread_create(&threads[i % kAtATime], NULL, work, (void*)i) == 0);
  }
  for (long i = count - kAtATime; i < count; i++) join(threads[i % kAtATime], i);
  CHECK(sum == count * (count - 1) / 2);
  char none;
  if (*how) CHECK(puts("READY") >= 0 && fflush(stdout) == 0 && read(0, &none, 1) == 0);
  pthread_barrier_wait(&end);
  CHECK(pthread_join(staying, NULL) == 0);
  return success();
}
