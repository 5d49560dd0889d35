// Orders in which threads end: many short ones, ones detached in each way, and the first thread before all others.
#include <pthread.h>
#include <semaphore.h>

#include "check.h"

static sem_t ended;
static pthread_key_t key;
static int destroyed;

static void destroy(void* value) {
  (void)value;
  __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void* brief(void* number) {
  pthread_setspecific(key, number);
  return number;
}

static void* detached(void* by_itself) {
  if (by_itself) CHECK(pthread_detach(pthread_self()) == 0);
  sem_post(&ended);
  return NULL;
}

static void* cancelled(void* unused) {
  (void)unused;
  for (;;) pause();
  return NULL;
}

static void* last(void* first) {
  CHECK(pthread_join(*(pthread_t*)first, NULL) == 0);
  exit(success() == 0 ? 5 : 1);
}

int main(void) {
  static pthread_t self;
  pthread_t thread;
  sem_init(&ended, 0, 0);
  pthread_key_create(&key, destroy);
  for (long i = 1; i <= 300; i++) {
    void* result;
    CHECK(pthread_create(&thread, NULL, brief, (void*)i) == 0 && pthread_join(thread, &result) == 0 && (long)result == i);
  }
  CHECK(destroyed == 300);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < 20; i++) CHECK(pthread_create(&thread, &attributes, detached, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    CHECK(pthread_create(&thread, NULL, detached, i % 2 ? &ended : NULL) == 0);
    if (i % 2 == 0) CHECK(pthread_detach(thread) == 0);
  }
  for (int i = 0; i < 40; i++) CHECK(sem_wait(&ended) == 0);
  void* result;
  CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0 && pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  self = pthread_self();
  CHECK(pthread_create(&thread, NULL, last, &self) == 0);
  pthread_exit(NULL);
}
