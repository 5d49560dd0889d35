// Locks of the rarer kinds: with priority inheritance, robust ones whose owner ends with them, checked and recursive
// ones; the calls below them; between processes too.
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { kThreads = 4, kRounds = 300 };

static pthread_mutex_t mutex;
static long counter;
static volatile int handled;

static void note(int number) { handled = number; }

static void* add(void* unused) {
  for (int i = 0; i < kRounds; i++) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    long before = counter;
    if (i % 8 == 0) sched_yield();
    counter = before + 1;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
  }
  return unused;
}

static void* keep(void* locked) {
  CHECK(pthread_mutex_lock(&mutex) == 0);
  *(volatile int*)locked = 1;
  return NULL;
}

static void make(int protocol, int robust, int type) {
  pthread_mutexattr_t how;
  CHECK(pthread_mutexattr_init(&how) == 0 && pthread_mutexattr_setprotocol(&how, protocol) == 0);
  CHECK(pthread_mutexattr_setrobust(&how, robust) == 0 && pthread_mutexattr_settype(&how, type) == 0);
  CHECK(pthread_mutex_init(&mutex, &how) == 0 && pthread_mutexattr_destroy(&how) == 0);
}

static struct timespec in_milliseconds(clockid_t clock, long ms) {
  struct timespec t;
  CHECK(clock_gettime(clock, &t) == 0);
  t.tv_nsec += ms * 1000000;
  if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
  return t;
}

static void count(void) {
  pthread_t threads[kThreads];
  counter = 0;
  for (int i = 0; i < kThreads; i++) CHECK(pthread_create(&threads[i], NULL, add, NULL) == 0);
  for (int i = 0; i < kThreads; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(counter == kThreads * kRounds);
}

static void owner_ends(void) {
  pthread_t thread;
  int locked = 0;
  CHECK(pthread_create(&thread, NULL, keep, &locked) == 0 && pthread_join(thread, NULL) == 0 && locked);
  CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD && pthread_mutex_consistent(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
  count();
}

static void* try_it(void* unused) {
  struct timespec limit = in_milliseconds(CLOCK_REALTIME, 5);
  CHECK(pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_timedlock(&mutex, &limit) == ETIMEDOUT);
  limit = in_milliseconds(CLOCK_MONOTONIC, 5);
  CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &limit) == ETIMEDOUT);
  // A handler that runs while this waits: the wait goes on.
  struct itimerval soon = {{0, 0}, {0, 2000}};
  CHECK(signal(SIGALRM, note) != SIG_ERR && setitimer(ITIMER_REAL, &soon, NULL) == 0);
  limit = in_milliseconds(CLOCK_REALTIME, 200);
  CHECK(pthread_mutex_timedlock(&mutex, &limit) == ETIMEDOUT && handled == SIGALRM);
  return unused;
}

static void limits(void) {
  pthread_t thread;
  CHECK(pthread_mutex_lock(&mutex) == 0);
  CHECK(pthread_create(&thread, NULL, try_it, NULL) == 0 && pthread_join(thread, NULL) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

static void calls(void) {
  unsigned word = 0, tid = (unsigned)gettid();
  CHECK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0 && (word & FUTEX_TID_MASK) == tid);
  CHECK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == -1 && errno == EDEADLK);
  CHECK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0 && word == 0);
  CHECK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == -1 && errno == EPERM);
  CHECK(syscall(SYS_futex, &word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0) == 0 && (word & FUTEX_TID_MASK) == tid);
  CHECK(syscall(SYS_futex, NULL, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == -1 && errno == EFAULT);
}

int main(void) {
  make(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_MUTEX_NORMAL);
  count();
  limits();
  make(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST, PTHREAD_MUTEX_ERRORCHECK);
  CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_unlock(&mutex) == 0);
  owner_ends();
  make(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_MUTEX_RECURSIVE);
  CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
  owner_ends();
  limits();
  calls();
  printf("%ld\n", counter);
  return success();
}
