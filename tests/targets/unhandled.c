// A call that Friday does not handle: the recording ends there and the program goes on unharmed, threads and children too.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "check.h"
#include "filters.h"

static void* work(void* unused) {
  (void)unused;
  for (int i = 0; i < 1000; i++) CHECK(getppid() > 0);
  return NULL;
}

int main(void) {
  pthread_t before, after;
  CHECK(pthread_create(&before, NULL, work, NULL) == 0);
  for (int i = 0; i < 100; i++) CHECK(getppid() > 0);
  struct sock_fprog program = filter_with_a_trap();
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
  printf("seccomp %ld\n", result);
  CHECK(pthread_create(&after, NULL, work, NULL) == 0);
  CHECK(pthread_join(before, NULL) == 0 && pthread_join(after, NULL) == 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(4);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
  return success();
}
