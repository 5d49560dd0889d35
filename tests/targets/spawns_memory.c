// Children that run in their parent's memory: what they store before they execute a program or end is their parent's, and their
// handlers, masks, descriptors and directory are not.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "check.h"

extern char** environ;
static volatile int shared, handled, busy;

static void note(int number) { handled += number; }

static int status_of(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

// The frame of a function that calls vfork must not be left by the child: so all of them are in one.
static void children_of_vfork(void) {
  char* absent[] = {"absent", NULL};
  volatile int local = 1;
  pid_t parent = getpid(), child = vfork();
  if (child == 0) {
    local = getppid() == parent && getpid() != parent ? 2 : 3;
    shared = 10;
    execv("/absent/program", absent);
    shared += errno;
    _exit(7);
  }
  CHECK(local == 2 && shared == 10 + ENOENT && getpid() == parent && WEXITSTATUS(status_of(child)) == 7);

  // Handlers and masks: the child's own.
  CHECK(signal(SIGUSR1, note) != SIG_ERR);
  sigset_t all, before;
  sigfillset(&all);
  child = vfork();
  if (child == 0) {
    struct sigaction own;
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigaction(SIGUSR1, NULL, &own);
    local = own.sa_handler == note ? 4 : 5;
    signal(SIGUSR1, SIG_IGN);
    signal(SIGFPE, SIG_IGN);
    chdir("/");
    dup2(open("/dev/null", O_RDONLY), 99);
    _exit(0);
  }
  CHECK(status_of(child) == 0 && local == 4 && sigprocmask(SIG_SETMASK, NULL, &before) == 0 && !sigismember(&before, SIGTERM));
  CHECK(raise(SIGUSR1) == 0 && handled == SIGUSR1 && fcntl(99, F_GETFD) == -1 && errno == EBADF);

  // A handler that runs in the child, and a child that is killed in a call.
  child = vfork();
  if (child == 0) {
    raise(SIGUSR1);
    _exit(handled == 2 * SIGUSR1 ? 0 : 1);
  }
  CHECK(status_of(child) == 0 && handled == 2 * SIGUSR1);
  child = vfork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    ualarm(20000, 0);
    for (;;) pause();
  }
  int status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
  child = vfork();
  if (child == 0) kill(getpid(), SIGKILL);
  status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

  // One that dies of what it does.
  child = vfork();
  if (child == 0) {
    local = 6;
    *(volatile int*)16 = 1;
  }
  status = status_of(child);
  CHECK(local == 6 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  child = vfork();
  if (child == 0) {
    local = 7;
    __builtin_trap();
  }
  status = status_of(child);
  CHECK(local == 7 && WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
  child = vfork();
  if (child == 0) {
    volatile int zero = 0;
    local = 8;
    local = 9 / zero;
  }
  status = status_of(child);
  CHECK(local == 8 && WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE);
  child = vfork();
  if (child == 0) {
    signal(SIGFPE, note);
    __asm__ volatile("mov $4096, %%rsp; xor %%ecx, %%ecx; xor %%edx, %%edx; div %%ecx" : : "a"(1) : "rcx", "rdx", "memory");
  }
  status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

  // A child of a child; a fork of a child.
  child = vfork();
  if (child == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(5);
    int ended;
    _exit(waitpid(grandchild, &ended, 0) == grandchild ? WEXITSTATUS(ended) : 1);
  }
  CHECK(WEXITSTATUS(status_of(child)) == 5);
}

static void* compute(void* unused) {
  (void)unused;
  while (busy) {
    CHECK(getppid() > 0);
    sched_yield();
  }
  return NULL;
}

static void* spawn(void* number) {
  char text[16];
  snprintf(text, sizeof text, "exit %d", (int)(long)number);
  char* arguments[] = {"sh", "-c", text, NULL};
  pid_t child;
  for (int i = 0; i < 3; i++)
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0 && WEXITSTATUS(status_of(child)) == (int)(long)number);
  return NULL;
}

// While other threads run, and from several threads at once.
static void spawn_in_threads(void) {
  pthread_t computing, spawning[3];
  busy = 1;
  CHECK(pthread_create(&computing, NULL, compute, NULL) == 0);
  for (long i = 0; i < 3; i++) CHECK(pthread_create(&spawning[i], NULL, spawn, (void*)(i + 1)) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(spawning[i], NULL) == 0);
  busy = 0;
  CHECK(pthread_join(computing, NULL) == 0);
}

// posix_spawn with all that it can be told.
static void spawn_with_all(void) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t how;
  int ends[2];
  char* arguments[] = {"sh", "-c", "pwd; cat; kill -USR1 $$; exit 1", NULL};
  char line[64] = "";
  CHECK(pipe(ends) == 0 && signal(SIGUSR1, SIG_IGN) != SIG_ERR);
  CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&how) == 0);
  CHECK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0);
  CHECK(posix_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0 && posix_spawn_file_actions_addclose(&actions, ends[0]) == 0);
  CHECK(posix_spawn_file_actions_addchdir_np(&actions, "/usr") == 0 && posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGUSR1);
  CHECK(posix_spawnattr_setsigdefault(&how, &defaults) == 0 && posix_spawnattr_setpgroup(&how, 0) == 0);
  CHECK(posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK) == 0);
  pid_t child;
  CHECK(posix_spawnp(&child, "sh", &actions, &how, arguments, environ) == 0);
  CHECK(close(ends[1]) == 0 && read(ends[0], line, sizeof line) == 5 && strcmp(line, "/usr\n") == 0);
  int status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1 && close(ends[0]) == 0);
  // Errors come back through the memory that the child shares. A directory in PATH that may not be looked into would be another.
  CHECK(setenv("PATH", "/usr/bin:/bin", 1) == 0);
  CHECK(posix_spawn_file_actions_adddup2(&actions, 77, 78) == 0);
  CHECK(posix_spawnp(&child, "sh", &actions, &how, arguments, environ) == EBADF);
  CHECK(posix_spawnp(&child, "absent-program", NULL, NULL, arguments, environ) == ENOENT);
  CHECK(posix_spawn(&child, "/etc/passwd", NULL, NULL, arguments, environ) == EACCES);
  CHECK(posix_spawn_file_actions_destroy(&actions) == 0 && posix_spawnattr_destroy(&how) == 0);
}

int main(void) {
  children_of_vfork();
  spawn_in_threads();
  spawn_with_all();
  printf("%d\n", shared);
  return success();
}
