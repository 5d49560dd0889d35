// Threads that wait for each other: conditions with and without a limit, semaphores, barriers, read-write locks, once.
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore;
static int queue[8], head, tail, onces;
static long guarded;

static void* produce(void* unused) {
  (void)unused;
  for (int i = 1; i <= 3000; i++) {
    pthread_mutex_lock(&lock);
    while (head - tail == 8) pthread_cond_wait(&emptied, &lock);
    queue[head++ % 8] = i;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void* consume(void* sum) {
  for (int i = 1; i <= 1000; i++) {
    pthread_mutex_lock(&lock);
    while (head == tail) pthread_cond_wait(&filled, &lock);
    *(long*)sum += queue[tail++ % 8];
    pthread_cond_signal(&emptied);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void count_once(void) { onces++; }

static void* meet(void* unused) {
  (void)unused;
  for (int i = 0; i < 50; i++) {
    pthread_once(&once, count_once);
    pthread_barrier_wait(&barrier);
    pthread_rwlock_rdlock(&rwlock);
    long seen = guarded;
    pthread_rwlock_unlock(&rwlock);
    CHECK(seen >= i * 4);
    pthread_rwlock_wrlock(&rwlock);
    guarded++;
    pthread_rwlock_unlock(&rwlock);
    sem_post(&semaphore);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void limit(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 5000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_mutex_lock(&lock);
  CHECK(pthread_cond_timedwait(&filled, &lock, &until) == ETIMEDOUT);
  pthread_mutex_unlock(&lock);
  CHECK(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
}

int main(void) {
  pthread_t threads[4];
  long sums[3] = {0};
  sem_init(&semaphore, 0, 0);
  limit();
  pthread_create(&threads[3], NULL, produce, NULL);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, consume, &sums[i]);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%ld\n", sums[0] + sums[1] + sums[2]);
  pthread_barrier_init(&barrier, NULL, 4);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, meet, NULL);
  for (int i = 0; i < 200; i++) CHECK(sem_wait(&semaphore) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%ld %d\n", guarded, onces);
  return success();
}
