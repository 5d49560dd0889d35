// Seccomp filters, as its argument says: `strict`, `filter` that kills whoever makes other calls than the few that are left, `threads` in
// several, `bare` without the return of handlers. Nothing that the program does not do itself may come to the filter.
#include <cpuid.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <x86intrin.h>

#include "check.h"

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int return_of_handlers = SYS_rt_sigreturn;

static void install_filter(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(read), ALLOW(write), ALLOW(exit_group), ALLOW(exit), ALLOW(futex), ALLOW(munmap), ALLOW(madvise),
      ALLOW(rt_sigprocmask), ALLOW(getppid),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)return_of_handlers, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static int ends[2];

// What traps while it is recorded: instructions, calls in code that nobody decoded, the loader's saving of registers at the first call of
// a function; and clocks, which need no call.
static void compute(const unsigned char* code) {
  unsigned low = 0, a = 0, b, c, d;
  struct timespec now;
  for (int i = 0; i < 1000; i++) {
    low |= (unsigned)__rdtsc();
    _mm_pause();
    a |= __get_cpuid(0, &b, &c, &d, &d) ? b : 0;
    CHECK(((long (*)(void))(uintptr_t)code)() > 0 && clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  }
  CHECK(low && a && strtol("12", NULL, 10) == 12 && labs(-3) == 3);
}

static void* work(void* unused) {
  char byte;
  for (int i = 0; i < 1000; i++) CHECK(getppid() > 0);
  CHECK(read(ends[0], &byte, 1) == 1);
  return unused;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  unsigned allow = SECCOMP_RET_ALLOW;
  struct seccomp_notif_sizes sizes;
  CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &allow) == 0 && syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0);
  CHECK(sizes.seccomp_notif > 0 && prctl(PR_GET_SECCOMP) == 0 && pipe(ends) == 0);
  unsigned char* code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, "\xb8\x6e\0\0\0\x0f\x05\xc3", 8);  // getppid
  pid_t child = fork();
  if (child == 0) {
    CHECK(write(ends[1], "x", 1) == 1);
    if (strcmp(how, "bare") == 0) {
      return_of_handlers = SYS_getppid;
      install_filter();
      compute(code);
      CHECK(write(1, "inside\n", 7) == 7);
      _exit(5);
    }
    if (strcmp(how, "strict") == 0) {
      CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
      char byte;
      int good = syscall(SYS_read, ends[0], &byte, 1) == 1 && byte == 'x' && syscall(SYS_write, 1, "inside\n", 7) == 7;
      syscall(SYS_exit, good ? 5 : 6);
    }
    if (strcmp(how, "filter") == 0) {
      install_filter();
      work(NULL);
      CHECK(write(1, "inside\n", 7) == 7);
      _exit(5);
    }
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    install_filter();
    CHECK(write(ends[1], "yyyy", 4) == 4);
    work(NULL);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    _exit(5);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  printf("%#x\n", status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  // Whoever breaks the rule is killed, recorded or not.
  child = fork();
  if (child == 0) {
    install_filter();
    syscall(SYS_getuid);
    _exit(7);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == 31);
  return success();
}
