// Futexes by their plain operations: wait and wake with masks, requeue, compare and requeue, wake with an operation, waitv, and the
// calls that have one number each.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"

static unsigned word, second, gate, awake;

static long futex(unsigned *at, int operation, unsigned value, const void *timeout, unsigned *other, unsigned more) {
  return syscall(SYS_futex, at, operation, value, timeout, other, more);
}

static void *wait_on_word(void *mask) {
  __atomic_fetch_add(&gate, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) {
    long r = mask ? futex(&word, FUTEX_WAIT_BITSET, 0, NULL, NULL, (unsigned)(unsigned long)mask) : futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0);
    if (r == 0) break;
    CHECK(errno == EAGAIN || errno == EINTR);
  }
  __atomic_fetch_add(&awake, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void start(pthread_t *threads, int count, void *(*body)(void *), void *argument) {
  gate = awake = word = 0;
  for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, body, argument) == 0);
  while (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) < (unsigned)count) sched_yield();
}
static void join(pthread_t *threads, int count) {
  for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void requeues(void) {
  pthread_t threads[4];
  start(threads, 4, wait_on_word, NULL);
  long moved = 0;
  while (moved < 4) {  // until all four have really gone to sleep
    long r = futex(&word, FUTEX_CMP_REQUEUE, 0, (void *)4, &second, 0);
    CHECK(r >= 0);
    moved += r;
    usleep(200);
  }
  CHECK(futex(&word, FUTEX_CMP_REQUEUE, 0, (void *)1, &second, 7) == -1 && errno == EAGAIN);
  CHECK(futex(&second, FUTEX_WAKE, 1, NULL, NULL, 0) == 1 && futex(&second, FUTEX_REQUEUE, 1, (void *)8, &word, 0) >= 1);
  CHECK(futex(&word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 8, NULL, NULL, 0) == 0);
  CHECK(futex(&word, FUTEX_WAKE, 8, NULL, NULL, 0) == 2);
  join(threads, 4);
  CHECK(awake == 4);
}

static void operations(void) {
  pthread_t threads[2];
  start(threads, 2, wait_on_word, NULL);
  second = 5;
  long woken = 0;
  int value = 5;
  while (woken < 2) {  // adds one to `second`, wakes on `word`, and on `second` if it was what is expected
    woken += futex(&word, FUTEX_WAKE_OP, 1, (void *)1, &second, FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 999));
    value++;
    CHECK(second == (unsigned)value);
    usleep(200);
  }
  join(threads, 2);
  start(threads, 2, wait_on_word, (void *)4);
  for (woken = 0; woken < 2; usleep(200)) {
    CHECK(futex(&word, FUTEX_WAKE_BITSET, 2, NULL, NULL, 2) == 0);
    woken += futex(&word, FUTEX_WAKE_BITSET, 2, NULL, NULL, 4);
  }
  join(threads, 2);
}

static void timeouts(void) {
  struct timespec short_time = {0, 1000000}, past = {1, 0};
  word = 0;
  CHECK(futex(&word, FUTEX_WAIT, 0, &short_time, NULL, 0) == -1 && errno == ETIMEDOUT);
  CHECK(futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &past, NULL, 1) == -1 && errno == ETIMEDOUT);
  CHECK(futex(&word, FUTEX_WAIT, 3, NULL, NULL, 0) == -1 && errno == EAGAIN);
  CHECK(futex(&word, 2 /* FUTEX_FD, no more */, 0, NULL, NULL, 0) == -1 && errno == ENOSYS);
  CHECK(futex(&word, 99, 0, NULL, NULL, 0) == -1 && errno == ENOSYS);
}

static void *wait_on_many(void *unused) {
  struct futex_waitv both[2] = {{.val = 0, .uaddr = (unsigned long)&word, .flags = FUTEX_32}, {.val = 0, .uaddr = (unsigned long)&second, .flags = FUTEX_32}};
  (void)unused;
  __atomic_fetch_add(&gate, 1, __ATOMIC_SEQ_CST);
  long r = syscall(SYS_futex_waitv, both, 2, 0, NULL, 0);
  CHECK(r == 1 || (r == -1 && (errno == EAGAIN || errno == ENOSYS)));
  return NULL;
}

static void vectors(void) {
  pthread_t thread;
  second = 0;
  start(&thread, 1, wait_on_many, NULL);
  __atomic_store_n(&second, 1, __ATOMIC_SEQ_CST);
  CHECK(futex(&second, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
  join(&thread, 1);
  struct timespec past = {1, 0};
  const unsigned size_32 = 2;
  word = 0;
  CHECK(syscall(454 /* futex_wake */, &word, 0xfffffffful, 1, size_32) == 0 || errno == ENOSYS);
  CHECK(syscall(455 /* futex_wait */, &word, 0ul, 0xfffffffful, size_32, &past, CLOCK_MONOTONIC) == -1 && (errno == ETIMEDOUT || errno == ENOSYS));
  struct futex_waitv both[2] = {{.val = 0, .uaddr = (unsigned long)&word, .flags = size_32}, {.val = 0, .uaddr = (unsigned long)&second, .flags = size_32}};
  CHECK(syscall(456 /* futex_requeue */, both, 0, 0, 1) == 0 || errno == ENOSYS);
}

int main(void) {
  requeues();
  operations();
  timeouts();
  vectors();
  return success();
}
