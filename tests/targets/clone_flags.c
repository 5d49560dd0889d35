// Processes made by clone(2) with flags of its own: a namespace, a descriptor of the child, another parent.
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { kPidFd = 0x1000 };

static pid_t make(unsigned long flags, int* stored) { return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, stored, 0, 0); }

// A child that shares its parent's memory and runs beside it; or its descriptors.
static volatile int value;
static char stack[1 << 16] __attribute__((aligned(16)));
static int store(void* given) {
  CHECK(given == stack);
  for (int i = 0; i < 9; i++) value = i + 1, usleep(1000);
  return 6;
}
static int share_memory(void) {
  int status;
  pid_t child = clone(store, stack + sizeof stack, CLONE_VM | SIGCHLD, stack);
  CHECK(child > 0);
  for (int seen = 0; seen < 9; seen = value) usleep(500);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
  printf("stored %d\n", value);
  return success();
}
static int share_descriptors(void) {
  int status;
  pid_t child = make(CLONE_FILES, NULL);
  CHECK(child >= 0);
  if (child == 0) _exit(dup2(1, 77) == 77 ? 7 : 1);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  CHECK(write(77, "", 0) == 0);
  return success();
}


// As Chromium's sandbox changes its directory: a child that borrows the memory, the working directory, and a thread pointer of its own.
static __thread volatile int of_thread = 3;
static unsigned long pointer[512], found, round_of_child;
static int leave_for_root(void* given) {
  __asm__("mov %%fs:0, %0" : "=r"(found));
  of_thread = 99;  // somewhere in `pointer`
  round_of_child = found + (unsigned long)given;
  syscall(SYS_exit_group, syscall(SYS_chdir, "/") == 0 ? 5 : 1);
  return 1;
}
static int own_thread_pointer(void) {
  char where[256];
  for (unsigned i = 0; i < 20; i++) {
    int status;
    pointer[256] = 40 + i;
    CHECK(chdir("/tmp") == 0);
    const pid_t child = clone(leave_for_root, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_SETTLS | SIGCHLD, (void*)2, NULL, pointer + 256);
    CHECK(child > 0 && of_thread == 3 && found == 40ul + i && round_of_child == 42ul + i);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
    CHECK(getcwd(where, sizeof where) && strcmp(where, "/") == 0);
  }
  printf("found %d\n", (int)found);
  return success();
}

int main(int argc, char** argv) {
  CHECK(getppid() > 0);
  if (argc > 1) return *argv[1] == 'm' ? share_memory() : *argv[1] == 'd' ? share_descriptors() : own_thread_pointer();
  char before[256], after[256];
  CHECK(gethostname(before, sizeof before) == 0);
  int status;
  pid_t child = make(CLONE_NEWUTS, NULL);
  CHECK(child >= 0 || errno == EPERM);
  if (child == 0) {
    char name[256];
    CHECK(sethostname("elsewhere", 9) == 0 && gethostname(name, sizeof name) == 0 && strcmp(name, "elsewhere") == 0);
    _exit(3);
  }
  if (child > 0) CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
  CHECK(gethostname(after, sizeof after) == 0 && strcmp(before, after) == 0);

  int fd = -1;
  child = make(kPidFd, &fd);
  CHECK(child >= 0);
  if (child == 0) _exit(fd == -1 ? 4 : 1);  // only the parent is told
  CHECK(fd > 2);
  siginfo_t info;
  CHECK(waitid(3 /* P_PIDFD */, (id_t)fd, &info, WEXITED) == 0 && info.si_pid == child && info.si_status == 4 && close(fd) == 0);

  int pid = 0;
  child = make(CLONE_PARENT_SETTID, &pid);
  CHECK(child >= 0);
  if (child == 0) _exit(pid == 0 ? 4 : 1);
  CHECK(pid == child && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);

  child = make(CLONE_FS, NULL);
  CHECK(child >= 0);
  if (child == 0) _exit(chdir("/") == 0 ? 5 : 1);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
  char directory[256];
  CHECK(getcwd(directory, sizeof directory) && strcmp(directory, "/") == 0);  // shared
  return success();
}
