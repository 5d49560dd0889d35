// Processes that look at one another: pidfds, waitid, memory of others and of oneself, kcmp, groups, sessions, limits, usage, priorities,
// scheduling.
#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static pid_t sleeper(void) {
  pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  CHECK(child > 0);
  return child;
}

static void by_descriptor(void) {
  pid_t child = sleeper();
  int fd = (int)syscall(SYS_pidfd_open, child, 0);
  siginfo_t info = {.si_pid = 1};
  if (fd < 0) {
    CHECK(errno == ENOSYS && kill(child, SIGKILL) == 0);
  } else {
    struct pollfd ended = {fd, POLLIN, 0};
    CHECK(waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
    int copy = (int)syscall(SYS_pidfd_getfd, fd, 0, 0);
    CHECK(copy >= 0 ? close(copy) == 0 : errno == EPERM);
    CHECK(syscall(SYS_process_mrelease, fd, 0) == -1);
    CHECK(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0 && poll(&ended, 1, 10000) == 1);
    CHECK(waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && close(fd) == 0);
  }
  struct rusage usage;
  CHECK(syscall(SYS_waitid, P_PID, child, &info, WEXITED, &usage) == 0 && info.si_code == CLD_KILLED && info.si_status == SIGKILL && usage.ru_stime.tv_sec < 100);
  info.si_signo = 99;
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == -1 && errno == ECHILD);
  printf("si_signo of nobody %d\n", info.si_signo);
  info.si_signo = 99;
  CHECK(waitid(P_ALL, 0, &info, 0) == -1 && errno == EINVAL);
  printf("si_signo of nothing %d\n", info.si_signo);
}

static void memory(void) {
  static char text[32] = "before", got[32];
  struct iovec local = {got, 7}, remote = {text, 7};
  ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (n < 0) {
    CHECK(errno == EPERM || errno == ENOSYS);
    return;
  }
  CHECK(n == 7 && strcmp(got, "before") == 0);
  struct iovec from[2] = {{"aft", 3}, {"er!", 4}};
  CHECK(process_vm_writev(getpid(), from, 2, &remote, 1, 0) == 7);
  printf("%s\n", text);  // its own memory, written by the kernel
  CHECK(strcmp(text, "after!") == 0);
  pid_t child = sleeper();
  CHECK(process_vm_readv(child, &local, 1, &remote, 1, 0) == 7 && strcmp(got, "after!") == 0);
  long same = syscall(SYS_kcmp, getpid(), child, KCMP_FILE, 1, 1);
  CHECK(same == 0 || errno == ENOSYS || errno == EPERM);
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

static void groups(void) {
  int go[2];
  char byte;
  CHECK(pipe(go) == 0);
  pid_t child = fork();
  if (child == 0) {
    CHECK(read(go[0], &byte, 1) == 1 && getpgrp() == getpid() && getpgid(0) == getpid() && getsid(0) == getsid(getppid()));
    pid_t grandchild = fork();
    if (grandchild == 0) {
      CHECK(setsid() == getpid() && getsid(0) == getpid() && setpgid(0, 0) == -1);
      _exit(6);
    }
    int status;
    CHECK(wait4(grandchild, &status, 0, NULL) == grandchild && WEXITSTATUS(status) == 6);
    raise(SIGSTOP);
    CHECK(read(go[0], &byte, 1) == 1);  // stays until it has been seen to go on
    _exit(5);
  }
  siginfo_t info;
  CHECK(setpgid(child, child) == 0 && write(go[1], "g", 1) == 1 && getpgid(child) == child && getpriority(PRIO_PGRP, (id_t)child) == getpriority(PRIO_PROCESS, 0));
  CHECK(waitid(P_PGID, (id_t)child, &info, WSTOPPED) == 0 && info.si_code == CLD_STOPPED && info.si_status == SIGSTOP);
  CHECK(kill(-child, SIGCONT) == 0 && waitid(P_PID, (id_t)child, &info, WCONTINUED) == 0 && info.si_code == CLD_CONTINUED && write(go[1], "e", 1) == 1);
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_code == CLD_EXITED && info.si_status == 5);
}

static void scheduling(void) {
  cpu_set_t cpus, kept;
  struct sched_param param = {0};
  struct timespec slice;
  CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 1);
  kept = cpus;
  CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0 && sched_getaffinity(0, sizeof cpus, &kept) == 0 && CPU_EQUAL(&cpus, &kept));
  CHECK(sched_getscheduler(0) == SCHED_OTHER && sched_getparam(0, &param) == 0 && sched_setscheduler(0, SCHED_BATCH, &param) == 0);
  CHECK(sched_setparam(0, &param) == 0 && sched_rr_get_interval(0, &slice) == 0 && sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_min(SCHED_RR) == 1);
  struct {
    unsigned size, policy;
    unsigned long long flags;
    int nice;
    unsigned priority;
    unsigned long long runtime, deadline, period;
  } attributes = {0};
  CHECK(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 && attributes.policy == SCHED_BATCH);
  attributes.nice = 1;
  CHECK(syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 && getpriority(PRIO_PROCESS, 0) == 1 && setpriority(PRIO_PROCESS, 0, 2) == 0);
  struct {
    unsigned size, rest[63];
  } large = {sizeof large, {0}};
  large.rest[40] = 1;  // more than the kernel knows: it says how much that is
  CHECK(syscall(SYS_sched_setattr, 0, &large, 0) == -1 && errno == E2BIG);
  printf("attributes of %u bytes\n", large.size);
  unsigned cpu, node;
  CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && sched_yield() == 0);
  CHECK(syscall(SYS_ioprio_get, 1, 0) >= 0 && syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4) == 0);
}

static void numbers(void) {
  struct rlimit limit, old;
  CHECK(getrlimit(RLIMIT_CORE, &limit) == 0 && prlimit(0, RLIMIT_CORE, &limit, &old) == 0 && old.rlim_max == limit.rlim_max && setrlimit(RLIMIT_CORE, &limit) == 0);
  CHECK(syscall(SYS_getrlimit, RLIMIT_NOFILE, &limit) == 0 && syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit) == 0);
  struct rusage usage;
  struct tms times_used;
  struct sysinfo system;
  struct utsname name;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && getrusage(RUSAGE_CHILDREN, &usage) == 0 && times(&times_used) != (clock_t)-1);
  CHECK(sysinfo(&system) == 0 && system.totalram > 0 && uname(&name) == 0 && name.sysname[0] == 'L');
  struct timespec now, resolution;
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0 && clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_nsec > 0);
  CHECK(syscall(SYS_personality, 0xffffffff) >= 0 && (umask(022), umask(022)) == 022);
}

int main(void) {
  by_descriptor();
  memory();
  groups();
  scheduling();
  numbers();
  return success();
}
