// Processes that each share something of their own, and then something of the next one: what they share comes to be one. The last one
// computes before it does so, so that each of the others comes while the next one runs or waits itself. Then each spins in a barrier
// until all have come, while a second thread of it waits for a descriptor.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

enum { kProcesses = 4, kRounds = 5 };

struct Page {
  atomic_int arrived, left;
  int from;
};

static char name[kProcesses + 1][64];

static struct Page* map(int number, int computes) {
  int fd = shm_open(name[number], O_RDWR, 0);
  CHECK(fd >= 0);
  for (volatile int i = 0; i < computes; i++) {}
  struct Page* page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED && close(fd) == 0);
  return page;
}

static void* wait_for_end(void* end) {
  struct epoll_event event = {.events = EPOLLIN}, got;
  int epoll = epoll_create1(0);
  CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, *(int*)end, &event) == 0);
  CHECK(epoll_wait(epoll, &got, 1, -1) == 1);
  return NULL;
}

static void meet(atomic_int* count) {
  atomic_fetch_add(count, 1);
  while (atomic_load(count) < kProcesses) {}
}

static void process(int number, const int* start, const int* ready) {
  int end[2];
  char none;
  pthread_t waits;
  CHECK(pipe(end) == 0 && pthread_create(&waits, NULL, wait_for_end, &end[0]) == 0);
  map(number, 0)->from = number;
  CHECK(write(ready[1], "", 1) == 1 && close(start[1]) == 0 && read(start[0], &none, 1) == 0);
  struct Page* next = map((number + 1) % kProcesses, number == kProcesses - 1 ? 20000000 : 0);
  next->from = number;
  struct Page* all = map(kProcesses, 0);
  meet(&all->arrived);
  all->from = number;
  meet(&all->left);
  CHECK(write(end[1], "", 1) == 1 && pthread_join(waits, NULL) == 0);
  _exit(0);
}

int main(void) {
  for (int n = 0; n <= kProcesses; n++) snprintf(name[n], sizeof name[n], "/friday-target-%d-%d", getpid(), n);
  for (int round = 0; round < kRounds; round++) {
    for (int n = 0; n <= kProcesses; n++) {
      int fd = shm_open(name[n], O_RDWR | O_CREAT | O_EXCL, 0600);
      CHECK(fd >= 0 && ftruncate(fd, sizeof(struct Page)) == 0 && close(fd) == 0);
    }
    int start[2], ready[2];
    char none;
    CHECK(pipe(start) == 0 && pipe(ready) == 0);
    for (int n = 0; n < kProcesses; n++) {
      pid_t pid = fork();
      CHECK(pid >= 0);
      if (!pid) process(n, start, ready);
      CHECK(read(ready[0], &none, 1) == 1);
    }
    CHECK(close(start[0]) == 0 && close(start[1]) == 0 && close(ready[0]) == 0 && close(ready[1]) == 0);
    for (int n = 0, status; n < kProcesses; n++) CHECK(wait(&status) > 0 && status == 0);
    for (int n = 0; n <= kProcesses; n++) CHECK(shm_unlink(name[n]) == 0);
  }
  return success();
}
