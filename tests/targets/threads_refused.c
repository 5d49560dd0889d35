// The kernel refuses a thread and a process, as the limit of processes and a container's limit of pids make it: EAGAIN, and the program goes on.
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

static void* work(void* given) {
  CHECK(getppid() > 0);
  return given;
}

int main(void) {
  int here = 0;
  pthread_t thread;
  void* result;
  CHECK(pthread_create(&thread, NULL, work, &here) == 0 && pthread_join(thread, &result) == 0 && result == &here);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NPROC, &limit) == 0);
  const struct rlimit before = limit;
  limit.rlim_cur = 0;
  // Root is not subject to the limit.
  if (geteuid() == 0) CHECK(setresgid(54321, 54321, 54321) == 0 && setresuid(54321, 54321, 54321) == 0);
  CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
  for (int i = 0; i < 20; i++) {
    CHECK(pthread_create(&thread, NULL, work, NULL) == EAGAIN);
    errno = 0;
    CHECK(fork() == -1 && errno == EAGAIN);
    errno = 0;
    CHECK(vfork() == -1 && errno == EAGAIN);
    pid_t child;
    char* arguments[] = {"/bin/true", NULL};
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL) == EAGAIN);
  }
  CHECK(setrlimit(RLIMIT_NPROC, &before) == 0);
  for (int i = 0; i < 20; i++) CHECK(pthread_create(&thread, NULL, work, &here) == 0 && pthread_join(thread, &result) == 0 && result == &here);
  return success();
}
