// Cancellation in each state: in calls that wait, in waits for one another, while it is disabled, at once in a loop without calls, with
// handlers that clean up, out of a signal handler, before the thread has begun.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "check.h"

static volatile int cleaned, begun, go_on;
static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;

static void clean(void* by) { cleaned += (int)(long)by; }

static void* in_read(void* unused) {
  char byte;
  pthread_cleanup_push(clean, (void*)1);
  begun = 1;
  (void)!read(ends[0], &byte, 1);
  pthread_cleanup_pop(0);
  return unused;
}
static void* in_sleep(void* unused) {
  struct timespec long_time = {20, 0};
  pthread_cleanup_push(clean, (void*)1);
  begun = 1;
  nanosleep(&long_time, NULL);
  pthread_cleanup_pop(0);
  return unused;
}
static void unlock(void* unused) {
  (void)unused;
  cleaned += pthread_mutex_unlock(&mutex) == 0;
}
static void* in_condition(void* unused) {
  CHECK(pthread_mutex_lock(&mutex) == 0);
  pthread_cleanup_push(unlock, NULL);
  begun = 1;
  for (;;) pthread_cond_wait(&changed, &mutex);
  pthread_cleanup_pop(0);
  return unused;
}
static void* in_semaphore(void* unused) {
  pthread_cleanup_push(clean, (void*)1);
  begun = 1;
  sem_wait(&semaphore);
  pthread_cleanup_pop(0);
  return unused;
}
static void* in_accept(void* unused) {
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  CHECK(bind(listener, (struct sockaddr*)&name, sizeof name.sun_family) == 0 && listen(listener, 1) == 0);
  pthread_cleanup_push(clean, (void*)1);
  begun = 1;
  accept(listener, NULL, NULL);
  pthread_cleanup_pop(0);
  return unused;
}
static void* in_handler(void* unused) {
  // The signal's handler waits, and is cancelled there.
  pthread_cleanup_push(clean, (void*)1);
  raise(SIGUSR1);
  pthread_cleanup_pop(0);
  return unused;
}
static void wait_here(int number) {
  (void)number;
  begun = 1;
  pause();
}
static void* at_once(void* unused) {
  int before;
  CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before) == 0);
  pthread_cleanup_push(clean, (void*)1);
  begun = 1;
  for (;;) {
  }
  pthread_cleanup_pop(0);
  return unused;
}
static void* later(void* unused) {
  int before;
  CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
  begun = 1;
  while (!go_on) sched_yield();
  struct timespec short_time = {0, 1000000};
  CHECK(nanosleep(&short_time, NULL) == 0);  // no point of cancellation now
  cleaned++;
  CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before) == 0);
  pthread_testcancel();
  cleaned = 100;
  return unused;
}
static void* never(void* unused) {
  begun = 1;
  while (!go_on) sched_yield();
  cleaned++;
  return unused;
}

static void cancel(void* (*work)(void*), int wait_for_it) {
  pthread_t thread;
  void* result = NULL;
  cleaned = begun = go_on = 0;
  CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
  while (wait_for_it && !begun) sched_yield();
  CHECK(pthread_cancel(thread) == 0);
  go_on = 1;
  CHECK(pthread_join(thread, &result) == 0 && result == (work == never ? NULL : PTHREAD_CANCELED));
  printf("%d ", cleaned);
}

int main(void) {
  CHECK(pipe(ends) == 0 && sem_init(&semaphore, 0, 0) == 0 && signal(SIGUSR1, wait_here) != SIG_ERR);
  void* (*const all[])(void*) = {in_read, in_sleep, in_condition, in_semaphore, in_accept, in_handler, at_once, later, never};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) cancel(all[i], 1);
  for (int i = 0; i < 5; i++) cancel(at_once, 1);
  CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
  // Before it has begun: it ends at its first point of cancellation.
  pthread_t early;
  void* result;
  CHECK(pthread_create(&early, NULL, in_sleep, NULL) == 0 && pthread_cancel(early) == 0);
  CHECK(pthread_join(early, &result) == 0 && result == PTHREAD_CANCELED);
  printf("\n");
  return success();
}
