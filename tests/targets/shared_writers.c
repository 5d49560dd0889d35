// Files that one process has mapped and another one writes to: what is seen there, and in which order, is as it was. Nobody stands still. With an argument: what is
// read into the mapping is cut off before the reader has its turn.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { kWrites = 500 };

static char name[] = "writers-XXXXXX";
static int file;

static volatile int* map(void) {
  volatile int* m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(m != MAP_FAILED);
  return m;
}

static pid_t child(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  return pid;
}

static void join(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

// The writer has not mapped the file. How many of its numbers are seen, and which, differs from run to run.
static void looks(void) {
  const pid_t pid = child();
  if (!pid) {
    for (int i = 1; i <= kWrites; i++) {
      CHECK(pwrite(file, &i, sizeof i, 0) == sizeof i);
      if (i % 50 == 0) usleep(100);
    }
    _exit(0);
  }
  const volatile int* m = map();
  uint64_t hash = 14695981039346656037u;
  int last = 0;
  while (last != kWrites) {
    for (int k = 0; k < 1000 && last != kWrites; k++)
      if (*m != last) hash = (hash ^ (uint64_t)(last = *m)) * 1099511628211u;
    usleep(1);
  }
  printf("%016lx\n", (unsigned long)hash);
  join(pid);
}

// What is spliced into the file the other one writes only when it has stored something there.
static int pipes[2];

static void* fill(void* mapped) {
  usleep(20000);
  ((volatile char*)mapped)[100] = 'c';
  CHECK(write(pipes[1], "hello", 5) == 5);
  return NULL;
}

static void waits(int thread) {
  CHECK(pipe(pipes) == 0 && ftruncate(file, 0) == 0 && ftruncate(file, 4096) == 0);
  char* m = (char*)map();
  pthread_t other;
  pid_t pid = 0;
  if (thread) CHECK(pthread_create(&other, NULL, fill, m) == 0);
  else if (!(pid = child())) fill(m), _exit(0);
  loff_t to = 0;
  CHECK(splice(pipes[0], NULL, file, &to, 5, 0) == 5 && !memcmp(m, "hello", 5) && m[100] == 'c');
  if (thread) CHECK(pthread_join(other, NULL) == 0);
  else join(pid);
  CHECK(splice(pipes[0], NULL, file, &to, 5, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
  CHECK(close(pipes[1]) == 0 && splice(pipes[0], NULL, file, &to, 5, 0) == 0 && close(pipes[0]) == 0);
}

static long microseconds(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void compute(long times) {
  for (volatile long i = 0; i < times; i++) {}
}

// What a call has read is gone before the process has its turn again: while it waits in the call the other one takes the turn, computes until
// after the timer, and cuts off the file behind the memory.
static void goes(void) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec soon = {.it_value.tv_nsec = 300000000};
  CHECK(timer >= 0);
  char* m = (char*)map();
  const pid_t pid = child();
  if (!pid) {
    const long some = 2000000;
    long took = 1000000;  // where nothing else ran meanwhile
    for (int i = 0; i < 20; i++) {
      const long from = microseconds();
      compute(some);
      const long now = microseconds() - from + 1;
      took = now < took ? now : took;
    }
    struct itimerspec left = {0};
    while (!left.it_value.tv_nsec) CHECK(timerfd_gettime(timer, &left) == 0 && usleep(50000) == 0);  // and the other one waits in its call
    compute(some * (800000 / took + 1));
    CHECK(ftruncate(file, 0) == 0);
    _exit(0);
  }
  CHECK(timerfd_settime(timer, 0, &soon, NULL) == 0 && read(timer, m, sizeof(uint64_t)) == sizeof(uint64_t));
  join(pid);
  CHECK(ftruncate(file, 4096) == 0 && m[0] == 0);
}

int main(int count, char** arguments) {
  (void)arguments;
  file = mkstemp(name);
  CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, 4096) == 0);
  if (count == 2) {
    goes();
    return success();
  }
  waits(1);
  waits(0);
  looks();
  return success();
}
