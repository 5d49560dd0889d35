// Signals that a process sends to itself and that look like faults: rt_sigqueueinfo(2) and its like let it choose a positive si_code.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { kCode = 1, kCodes = 3 };

static volatile int told, tellings;
static siginfo_t about;

static void note(int number, siginfo_t* info, void* context) {
  (void)context;
  told = number;
  tellings++;
  about = *info;
}

static void catch(int number) {
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(number, &action, NULL) == 0);
}

static const int codes[kCodes] = {1 /* SEGV_MAPERR and its like */, 2, 0x80 /* SI_KERNEL */};

static void pretend(int way, int number, int code) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_signo = number;
  info.si_code = code;
  info.si_addr = (void*)(uintptr_t)0x123456789000;
  const pid_t self = getpid();
  const long tid = syscall(SYS_gettid);
  if (way == 0) CHECK(syscall(SYS_rt_sigqueueinfo, self, number, &info) == 0);
  if (way == 1) CHECK(syscall(SYS_rt_tgsigqueueinfo, self, tid, number, &info) == 0);
  if (way == 2) {
    const int fd = (int)syscall(SYS_pidfd_open, self, 0);
    CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, number, &info, 0) == 0 && close(fd) == 0);
  }
}

static void* idle(void* unused) {
  for (;;) pause();
  return unused;
}

int main(int argc, char** argv) {
  pthread_t thread;
  if (argc > 1 && strcmp(argv[1], "threads") == 0) CHECK(pthread_create(&thread, NULL, idle, NULL) == 0);
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGUSR1};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (int way = 0; way < 3; way++)
      for (int k = 0; k < kCodes; k++) {
        const int number = numbers[i];
        catch(number);
        tellings = 0;
        pretend(way, number, codes[k]);
        while (tellings == 0) usleep(100);  // another thread may be the one that is told
        CHECK(tellings == 1 && told == number && about.si_code == codes[k] && about.si_addr == (void*)(uintptr_t)0x123456789000);
        CHECK(signal(number, SIG_IGN) != SIG_ERR);
        pretend(way, number, codes[k]);
        CHECK(tellings == 1);
        catch(number);
        if (argc > 1) continue;
        sigset_t set, none;
        CHECK(sigemptyset(&set) == 0 && sigaddset(&set, number) == 0 && sigprocmask(SIG_BLOCK, &set, &none) == 0);
        pretend(way, number, codes[k]);
        const struct timespec enough = {10, 0};
        siginfo_t info;
        CHECK(sigtimedwait(&set, &info, &enough) == number && info.si_code == codes[k] && info.si_addr == (void*)(uintptr_t)0x123456789000);
        pretend(way, number, codes[k]);
        CHECK(tellings == 1 && sigprocmask(SIG_SETMASK, &none, NULL) == 0 && tellings == 2 && about.si_code == codes[k]);
      }
  // A true fault is one still.
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(signal(numbers[i], SIG_DFL) != SIG_ERR);
      pretend(0, numbers[i], codes[0]);
      for (;;) pause();
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
    printf("%d kills\n", numbers[i]);
  }
  return success();
}
