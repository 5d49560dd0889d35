// What a sandbox does: a filter of calls that traps some (SECCOMP_RET_TRAP), and a handler of SIGSYS that finds the call in its context as the
// kernel left it, and answers it. Other signals, threads, children and other programs behind the filter are as without it. `threads`: another
// thread runs while the filter is installed. `probe`: the filters that the kernel refuses change nothing.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "check.h"

#define TRAP(call, data) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | (data))

enum { kAnswer = 4711 };
static volatile int trapped, told;
static int stop[2];

static void on_trap(int number, siginfo_t* info, void* given) {
  ucontext_t* context = given;
  greg_t* registers = context->uc_mcontext.gregs;
  CHECK(number == SIGSYS && info->si_code == 1 /* SYS_SECCOMP */ && info->si_errno == 7 && info->si_arch == AUDIT_ARCH_X86_64);
  CHECK(info->si_call_addr == (void*)registers[REG_RIP] && info->si_syscall == registers[REG_RAX]);
  CHECK(memcmp((char*)info->si_call_addr - 2, "\x0f\x05", 2) == 0 || trapped < 0);
  trapped++;
  registers[REG_RAX] = kAnswer;
}
static void note(int number) {
  (void)number;
  told++;
}

static long filter(unsigned flags, struct sock_fprog* program) { return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program); }

static void install_filter(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      TRAP(getuid, 7), TRAP(sched_getparam, 7), TRAP(umask, 7), TRAP(lseek, 7),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK(filter(0, &program) == 0);
}

static void* work(void* given) {
  char byte;
  if (given) CHECK(read(stop[0], &byte, 1) == 1);
  for (int i = 0; i < 100; i++) CHECK(getppid() > 0);
  return given;
}

static void refused_filters(void) {
  struct sock_filter wrong = {0xffff, 0, 0, 0};
  struct sock_fprog empty = {0, NULL}, nowhere = {1, (struct sock_filter*)16}, bad = {1, &wrong};
  CHECK(filter(SECCOMP_FILTER_FLAG_TSYNC, NULL) == -1 && errno == EFAULT);
  CHECK(filter(0, &empty) == -1 && errno == EINVAL);
  CHECK(filter(0, &nowhere) == -1 && errno == EFAULT);
  CHECK(filter(0, &bad) == -1 && errno == EINVAL);
  CHECK(filter(1u << 30, &bad) == -1 && errno == EINVAL);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0) == -1 && errno == EFAULT);
  CHECK(prctl(PR_SET_SECCOMP, 77, 0, 0, 0) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
  CHECK(prctl(PR_GET_SECCOMP) == 0);
  CHECK(prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0) == 0 && prctl(59, 0, 1, 0, 0) == -1 && errno == EINVAL);
  CHECK(prctl(59, 1, 5, ~0ul, NULL) == -1 && errno == EINVAL && prctl(59, 99, 0, 0, NULL) == -1 && errno == EINVAL);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  refused_filters();
  if (strcmp(how, "probe") == 0) return success();
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0 && signal(SIGUSR1, note) != SIG_ERR && signal(SIGALRM, note) != SIG_ERR && pipe(stop) == 0);
  unsigned char* code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, "\xb8\x66\0\0\0\x0f\x05\xc3", 8);  // getuid
  sigset_t blocked, mask;
  CHECK(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGUSR2) == 0 && sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
  pthread_t other;
  if (*how) CHECK(pthread_create(&other, NULL, work, code) == 0);
  install_filter();
  for (int i = 0; i < 100; i++) {
    const int before = trapped;
    CHECK(getuid() == kAnswer && umask(022) == kAnswer && lseek(0, 0, SEEK_CUR) == kAnswer && syscall(SYS_sched_getparam, 0, 0) == kAnswer);
    CHECK(((long (*)(void))(uintptr_t)code)() == kAnswer && trapped == before + 5);
    CHECK(raise(SIGUSR1) == 0 && told == i + 1);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGUSR1) == 0 && sigismember(&mask, SIGSYS) == 0);
  }
  const struct itimerval soon = {{0, 0}, {0, 2000}};
  const int before = told;
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  while (told == before) {}  // no call is made meanwhile
  CHECK(*how == 0 || write(stop[1], "x", 1) == 1);
  if (*how) CHECK(pthread_join(other, NULL) == 0);
  CHECK(pthread_create(&other, NULL, work, NULL) == 0 && pthread_join(other, NULL) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(getuid() == kAnswer);
    execl("/bin/true", "true", NULL);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  printf("%d\n", WEXITSTATUS(status));
  return success();
}
