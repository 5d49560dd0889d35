// Robust mutexes that processes share, plain and with priority inheritance: their owner exits, is killed, aborts, crashes or becomes
// another program, while it waits in a call or computes, and with another process waiting for it or not. Who comes next is told.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum Way { kExit, kExitOfThread, kExitOfOther, kReturn, kAbort, kKill, kKilled, kKilledInCall, kFault, kExec, kWays };
static const char* const kNames[kWays] = {"exits", "exits from a thread", "exits as a thread holds it", "returns", "aborts", "kills itself", "is killed", "is killed in a call", "crashes", "executes"};

static pthread_mutex_t* mutex;
static int page;  // what is mapped, as a file

static pthread_mutex_t* map(void) {
  void* place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  CHECK(place != MAP_FAILED);
  return place;
}

static int has_waiters(void) { return (__atomic_load_n(&mutex->__data.__lock, __ATOMIC_SEQ_CST) & FUTEX_WAITERS) != 0; }

static void* leave(void* unused) {
  _exit(unused != NULL);
}

static void* hold(void* unused) {
  CHECK(pthread_mutex_lock(mutex) == 0);
  pthread_exit(unused);  // a robust mutex is given back here, too
}

static void* hold_on(void* held) {
  CHECK(pthread_mutex_lock(mutex) == 0 && write(*(int*)held, "", 1) == 1);
  for (;;) pause();
}

// The owner. Says over `ready` that it has the mutex; ends when `waited` says so another one waits for it.
static void own(enum Way way, int ready, int waited) {
  mutex = map();  // at an address of its own
  pthread_t thread;
  int held[2];
  char byte;
  CHECK(pipe(held) == 0);
  if (way == kExitOfOther) CHECK(pthread_create(&thread, NULL, hold_on, &held[1]) == 0 && read(held[0], &byte, 1) == 1);
  else CHECK(pthread_mutex_lock(mutex) == 0);
  CHECK(write(ready, "", 1) == 1);
  if (way == kKilledInCall) for (;;) pause();
  if (way == kKilled) for (;;) sched_yield();
  if (waited) while (!has_waiters()) sched_yield();
  switch (way) {
    case kExitOfThread: CHECK(pthread_create(&thread, NULL, leave, NULL) == 0 && pthread_join(thread, NULL) == 0); break;
    case kReturn: exit(0);
    case kAbort: abort();
    case kKill: kill(getpid(), SIGKILL); break;
    case kFault: *(volatile char*)8 = 1; break;
    case kExec: execl("/bin/true", "true", (char*)NULL); break;
    default: _exit(0);
  }
}

static pid_t start(enum Way way, int waited) {
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0 && fflush(stdout) == 0);
  const pid_t owner = fork();
  CHECK(owner >= 0);
  if (owner == 0) own(way, ready[1], waited), _exit(1);
  CHECK(close(ready[1]) == 0 && read(ready[0], &byte, 1) == 1 && close(ready[0]) == 0);
  return owner;
}

static pid_t killer_of(pid_t owner, int waited) {
  const pid_t killer = fork();
  CHECK(killer >= 0);
  if (killer) return killer;
  while (waited && !has_waiters()) sched_yield();
  _exit(kill(owner, SIGKILL) != 0);
}

static void take(void) {
  struct timespec limit;
  CHECK(clock_gettime(CLOCK_REALTIME, &limit) == 0);
  limit.tv_sec += 30;
  const int result = pthread_mutex_timedlock(mutex, &limit);
  CHECK(result == EOWNERDEAD);
}

static void owner_ends(enum Way way, int waited) {
  const pid_t owner = start(way, waited);
  const pid_t killer = way == kKilled || way == kKilledInCall ? killer_of(owner, waited) : 0;
  int status;
  if (waited) take();
  CHECK(waitpid(owner, &status, 0) == owner && (!killer || waitpid(killer, NULL, 0) == killer));
  if (!waited) CHECK((way & 1 ? pthread_mutex_trylock(mutex) : pthread_mutex_lock(mutex)) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
  CHECK(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
  printf(" %s: %s %d", kNames[way], WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void thread_ends(void) {
  const pid_t owner = fork();
  CHECK(owner >= 0);
  pthread_t thread;
  if (owner == 0) _exit(pthread_create(&thread, NULL, hold, NULL) || pthread_join(thread, NULL) || pthread_mutex_lock(mutex) != EOWNERDEAD);
  int status;
  CHECK(waitpid(owner, &status, 0) == owner && status == 0);
  CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD && pthread_mutex_unlock(mutex) == 0 && pthread_mutex_lock(mutex) == ENOTRECOVERABLE);
}

static void all_ways(int protocol) {
  pthread_mutexattr_t how;
  CHECK(pthread_mutexattr_init(&how) == 0 && pthread_mutexattr_setprotocol(&how, protocol) == 0 && pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0 && pthread_mutex_init(mutex, &how) == 0);
  for (enum Way way = 0; way < kWays; way++)
    for (int waited = 0; waited < 2; waited++) owner_ends(way, waited);
  thread_ends();
  CHECK(pthread_mutex_destroy(mutex) == 0 && puts("") >= 0 && fflush(stdout) == 0);
}

int main(void) {
  CHECK(setvbuf(stdout, NULL, _IOFBF, 1 << 16) == 0);
  page = memfd_create("page", 0);
  CHECK(page >= 0 && ftruncate(page, 4096) == 0);
  mutex = map();
  all_ways(PTHREAD_PRIO_NONE);
  all_ways(PTHREAD_PRIO_INHERIT);
  return success();
}
