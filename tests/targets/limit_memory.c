// A limit of the address space that leaves the program what it needs: it counts what the program maps, across fork, threads, vfork and
// execve, and is what the program asked for.
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { kMiB = 1 << 20 };
static const rlim_t kSoft = 48 * kMiB, kHard = 64 * kMiB;

static int can_map(size_t size) {
  void* m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return m != MAP_FAILED && munmap(m, size) == 0;
}

// Of the 48 MiB the program itself has used some.
static void check_limited(void) {
  struct rlimit limit, raw;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == kSoft && limit.rlim_max == kHard);
  CHECK(syscall(SYS_getrlimit, RLIMIT_AS, &raw) == 0 && raw.rlim_cur == kSoft && raw.rlim_max == kHard);
  CHECK(prlimit(getpid(), RLIMIT_AS, NULL, &raw) == 0 && raw.rlim_cur == kSoft);
  CHECK(can_map(8 * kMiB));
  CHECK(!can_map(60 * kMiB) && errno == ENOMEM);
}

static void* in_thread(void* unused) {
  check_limited();
  return unused;
}

static void check_end(pid_t child, int code) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void check_all(void) {
  check_limited();
  const pid_t child = fork();
  if (child == 0) {
    check_limited();
    _exit(3);
  }
  check_end(child, 3);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 1 << 18) == 0);
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  check_limited();
}

int main(int argc, char** argv) {
  if (argc > 1) {  // executed
    check_limited();
    if (argv[1][0] == 's') return 5;
    check_all();
    return 6;
  }
  struct rlimit limit = {kHard, kSoft};
  CHECK(setrlimit(RLIMIT_AS, &limit) == -1 && errno == EINVAL);
  CHECK(setrlimit(RLIMIT_AS, (struct rlimit*)8) == -1 && errno == EFAULT);
  limit = (struct rlimit){kSoft, kHard};
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_AS, &before) == 0 && prlimit(0, RLIMIT_AS, &limit, &before) == 0 && before.rlim_cur > kHard);
  check_all();
  // The soft limit goes down and up below the hard one.
  limit.rlim_cur = 40 * kMiB;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0 && can_map(8 * kMiB) && !can_map(52 * kMiB));
  limit.rlim_cur = kSoft;
  CHECK(syscall(SYS_setrlimit, RLIMIT_AS, &limit) == 0);
  check_limited();
  // A child by vfork has a limit of its own.
  const pid_t child = vfork();
  if (child == 0) {
    const struct rlimit less = {32 * kMiB, kHard};
    _exit(syscall(SYS_setrlimit, RLIMIT_AS, &less) == 0 && !can_map(kSoft) ? 4 : 1);
  }
  check_end(child, 4);
  check_limited();
  char *words[] = {argv[0], "spawned", NULL}, *last[] = {argv[0], "executed", NULL}, *none[] = {NULL};
  pid_t spawned;
  CHECK(posix_spawn(&spawned, "/proc/self/exe", NULL, NULL, words, none) == 0);
  check_end(spawned, 5);
  CHECK(posix_spawn(&spawned, "/nonexistent", NULL, NULL, words, none) == ENOENT);
  CHECK(execv("/nonexistent", last) == -1);
  check_limited();
  const pid_t executed = fork();
  if (executed == 0) {
    execve("/proc/self/exe", last, none);
    _exit(1);
  }
  check_end(executed, 6);
  return success();
}
