// Seccomp filters that allow all but a few calls, as servers and containers have them. `argument`: a filter that looks at what pages are made
// executable, as systemd's MemoryDenyWriteExecute= does.
#include <errno.h>
#include <linux/audit.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "check.h"
#include "filters.h"

#define INSTALL(code, flags) \
  do { \
    struct sock_fprog program = PROGRAM_OF(code); \
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0); \
  } while (0)

static void refuse_some(void) {
  struct sock_filter code[] = {
      WORD(arch),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      OTHERWISE(SECCOMP_RET_KILL_PROCESS),
      WORD(nr),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
      OTHERWISE(SECCOMP_RET_ERRNO | ENOSYS),
      IF(mkdir, SECCOMP_RET_ERRNO | EPERM),
      IF(mkdirat, SECCOMP_RET_ERRNO | EPERM),
      IF(sysinfo, SECCOMP_RET_ERRNO | ENOSYS),
      IF(swapon, SECCOMP_RET_KILL_PROCESS),
      OTHERWISE(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = PROGRAM_OF(code);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void refuse_uname(void) {
  struct sock_filter code[] = {WORD(nr), IF(uname, SECCOMP_RET_ERRNO | EACCES), OTHERWISE(SECCOMP_RET_ALLOW)};
  INSTALL(code, SECCOMP_FILTER_FLAG_TSYNC);
}

static void refuse_executable_pages(void) {
  struct sock_filter code[] = {
      WORD(nr),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      WORD(args[2]),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      OTHERWISE(SECCOMP_RET_ERRNO | EPERM),
      OTHERWISE(SECCOMP_RET_ALLOW),
  };
  INSTALL(code, 0);
}

static void look(int uname_error) {
  struct sysinfo system;
  struct utsname name;
  errno = 0;
  CHECK(mkdir("never", 0700) == -1 && errno == EPERM);
  CHECK(sysinfo(&system) == -1 && errno == ENOSYS);
  CHECK(uname(&name) == (uname_error ? -1 : 0) && (!uname_error || errno == uname_error));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int count;
static volatile sig_atomic_t caught;

static void on_signal(int number) { caught += number == SIGUSR1; }

static void* work(void* number) {
  look(0);
  pthread_barrier_wait(&barrier);
  if (number) refuse_uname();
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 1000; i++) {
    pthread_mutex_lock(&mutex);
    count++;
    pthread_mutex_unlock(&mutex);
  }
  look(EACCES);
  return NULL;
}

static int status_of(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "inside") == 0) {
    look(EACCES);
    printf("a program behind the filters\n");
    return 0;
  }
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (argc > 1) {
    refuse_executable_pages();
    void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == -1 && errno == EPERM && mprotect(page, 4096, PROT_READ) == 0);
    return success();
  }
  refuse_some();
  pthread_t threads[3];
  CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
  for (long i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, work, (void*)(long)(i == 1)) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(count == 3000 && signal(SIGUSR1, on_signal) != SIG_ERR && raise(SIGUSR1) == 0 && caught == 1);
  pid_t child = fork();
  if (child == 0) {
    look(EACCES);
    _exit(5);
  }
  int status = status_of(child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  child = fork();
  if (child == 0) {
    syscall(SYS_swapon, NULL, 0);
    _exit(6);
  }
  status = status_of(child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
  printf("%d, killed by %d\n", count, WTERMSIG(status));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "inside", NULL);
    _exit(7);
  }
  status = status_of(child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return success();
}
