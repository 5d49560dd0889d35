// Local variables in calls, recursion, threads and a jump out of a function; `changed` is called behind each store, with the value.
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include "check.h"

struct point {
  int x, y;
  unsigned flag : 1, width : 5;
};

__thread volatile long own;
volatile long told;
int numbers[10];
volatile int taken[4];

__attribute__((noinline)) void changed(long value) { told = value; }

__attribute__((noinline)) long count(long n) {
  volatile long total = 0;
  changed(total);
  for (long i = 1; i <= n; i++) {
    total += i;
    changed(total);
  }
  return total;
}

__attribute__((noinline)) long nest(long depth) {
  volatile long here = depth * 10;
  changed(here);
  if (depth > 0) nest(depth - 1);
  here++;
  changed(here);
  return here;
}

__attribute__((noinline)) int take(int fd) {
  volatile int value = -1;
  changed(value);
  for (int i = 0; i < 3; i++) {
    CHECK(read(fd, (void *)&value, sizeof value) == sizeof value);
    changed(value);
  }
  CHECK(read(fd, (void *)taken, sizeof taken) == sizeof taken);
  changed(taken[3]);
  return value;
}

static jmp_buf back;
__attribute__((noinline)) void leap(long n) {
  volatile long inside = n;
  changed(inside);
  inside = n + 1;
  changed(inside);
  longjmp(back, 1);
}

__attribute__((noinline)) long structs(long n) {
  volatile struct point p = {0, 0, 0, 0};
  volatile char text[64];
  changed(0);
  for (int i = 1; i <= n; i++) {
    p.x = i;
    changed(p.x);
    p.width = (unsigned)i;
    p.flag = p.flag;
    changed(p.width);
    text[i] = (char)i;
    changed(text[i]);
  }
  return p.x + p.width + text[1];
}

__attribute__((noinline)) void slice(void) {
  for (int i = 0; i < 10; i++) {
    numbers[i] = i + 1;
    changed(numbers[i]);
  }
  for (int i = 0; i < 10; i++) {
    numbers[i] = i + 1;  // the same again
    changed(numbers[i]);
  }
}

static void *worker(void *argument) {
  const long number = (long)argument;
  for (int i = 1; i <= 3; i++) {
    own = number * 100 + i;
    changed(own);
  }
  CHECK(count(3) == 6);
  return 0;
}

int main(void) {
  CHECK(count(4) == 10);
  CHECK(nest(2) == 21);
  int ends[2], values[7] = {5, 6, 7, 1, 2, 3, 4};
  CHECK(pipe(ends) == 0 && write(ends[1], values, sizeof values) == sizeof values);
  CHECK(take(ends[0]) == 7);
  if (setjmp(back) == 0) leap(30);
  CHECK(count(2) == 3);
  CHECK(structs(3) == 7);
  slice();
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], 0, worker, (void *)(i + 1)) == 0);
  for (long i = 0; i < 2; i++) CHECK(pthread_join(threads[i], 0) == 0);
  CHECK(nest(5) == 51);
  return success();
}
