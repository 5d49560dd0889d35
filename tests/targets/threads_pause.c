// Threads that wait for each other with the `pause` instruction alone, and locks that spin a while.
#include <pthread.h>
#include <sched.h>

#include "check.h"

static volatile int flag;
static pthread_spinlock_t lock;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static long under_lock, under_mutex;

// A `pause` that can move to a stub with what follows it; one that cannot, as a jump follows; and one behind which
// another branch leads.
static void wait_for(int value) {
  while (flag != value) {
    __builtin_ia32_pause();
    if (flag == value) return;
    __asm__ volatile("pause; jmp 1f; 1:");
    int odd = flag & 1;
    __asm__ volatile("test %0, %0; jnz 1f; pause; 1: mov %1, %0; test %0, %0" : "+r"(odd) : "m"(flag) : "cc");
  }
}

static void* raise_flag(void* value) {
  wait_for((int)(long)value - 1);
  flag = (int)(long)value;
  return NULL;
}

static void* count(void* unused) {
  (void)unused;
  for (int i = 0; i < 300; i++) {
    CHECK(pthread_spin_lock(&lock) == 0);
    under_lock++;
    if (i % 50 == 0) sched_yield();  // others spin meanwhile
    CHECK(pthread_spin_unlock(&lock) == 0);
    CHECK(pthread_mutex_lock(&adaptive) == 0);
    under_mutex++;
    if (i % 70 == 0) sched_yield();
    CHECK(pthread_mutex_unlock(&adaptive) == 0);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[6];
  for (long i = 0; i < 6; i++) CHECK(pthread_create(&threads[i], NULL, raise_flag, (void*)(i * 2 + 1)) == 0);
  for (int i = 0; i < 6; i++) {
    wait_for(i * 2 + 1);
    flag = i * 2 + 2;
  }
  for (int i = 0; i < 6; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(pthread_spin_init(&lock, 0) == 0);
  for (long i = 0; i < 6; i++) CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
  for (int i = 0; i < 6; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(under_lock == 1800 && under_mutex == 1800);
  return success();
}
