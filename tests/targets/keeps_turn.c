// keeps_turn WHO FILE: two processes that share memory, or two threads. One writes its number to FILE, computes for a while and makes no call, so
// that the other one waits for its turn. WHO is `processes` or `threads`.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

static volatile int ends;

static void compute(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  CHECK(file >= 0 && dprintf(file, "%d\n", getpid()) > 0);
  for (volatile long i = 0; i < 2000000000; i++) {}
}

static void* call(void* unused) {
  (void)unused;
  while (!ends) usleep(1000);
  return NULL;
}

// A child by vfork has the turn of the thread that made it.
static void threads(const char* path) {
  pthread_t other;
  CHECK(pthread_create(&other, NULL, call, NULL) == 0);
  const pid_t pid = vfork();
  CHECK(pid >= 0);
  if (!pid) {
    compute(path);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  ends = 1;
  CHECK(pthread_join(other, NULL) == 0);
}

static void processes(const char* path) {
  volatile int* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (!pid) {
    compute(path);
    shared[0] = 1;
    _exit(0);
  }
  while (!shared[0]) usleep(1000);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  if (strcmp(argv[1], "threads") == 0) threads(argv[2]);
  else processes(argv[2]);
  return success();
}
