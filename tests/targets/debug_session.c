// What a person does in a debugging session: functions to step into, return from and call, variables to watch, threads with
// variables of their own. Built at -O0 and at -O2; a debugger must show of the replay what it shows of the program itself.
#include <pthread.h>

#include "check.h"

#define APART __attribute__((noinline, noipa))
enum { kWorkers = 3 };

struct point {
  int x, y;
  struct point* next;
  char name[8];
};
static struct point last = {5, 6, NULL, "last"}, middle = {3, 4, &last, "middle"}, first = {1, 2, &middle, "first"};
struct point* head = &first;
long total;
double ratio = 0.5;
static __thread long own = 7;
__thread int more[3] = {1, 2, 3};
static pthread_barrier_t together, finished;

APART long square(long x) {
  return x * x;
}

static inline long twice(long x) {
  long result = x + x;
  return result;
}

APART long sum_squares(int n) {
  long sum = 0;
  for (int i = 1; i <= n; i++)
    sum += square(i);
  sum += twice(n);
  return sum;
}

APART long factorial(long n) {
  if (n < 2) return 1;
  return n * factorial(n - 1);
}

APART double scale(double by) {
  ratio *= by;
  return ratio;
}

APART void move(struct point* point, int by) {
  point->x += by;
  point->y -= by;
}

APART struct point shifted(struct point from, int by) {
  from.x += by;
  return from;
}

APART void walk(void) {
  while (head) {
    move(head, 10);
    total += head->x;
    head = head->next;
  }
}

APART void all_started(void) {
  total++;
}

static void* work(void* argument) {
  const long number = (long)argument;
  char name[16];
  snprintf(name, sizeof name, "worker-%ld", number);
  CHECK(pthread_setname_np(pthread_self(), name) == 0);
  own = 100 * number;
  more[1] = (int)number;
  pthread_barrier_wait(&together);
  pthread_barrier_wait(&finished);
  CHECK(own == 100 * number && more[1] == number);
  return NULL;
}

int main(void) {
  long sum = sum_squares(4);
  total = sum;
  CHECK(total == 38);
  total += factorial(5);
  scale(3);
  struct point other = shifted(first, 40);
  CHECK(other.x == 41);
  walk();
  CHECK(total == 38 + 120 + 11 + 13 + 15);
  pthread_t threads[kWorkers];
  CHECK(pthread_barrier_init(&together, NULL, kWorkers + 1) == 0 && pthread_barrier_init(&finished, NULL, kWorkers + 1) == 0);
  for (long i = 0; i < kWorkers; i++) CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  pthread_barrier_wait(&together);
  all_started();
  CHECK(own == 7);
  pthread_barrier_wait(&finished);
  for (long i = 0; i < kWorkers; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return success();
}
