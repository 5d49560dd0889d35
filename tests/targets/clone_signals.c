// Processes made by clone(2) that tell their end by another signal than SIGCHLD, or by none: signals that as a rule mean a fault, too. The
// kernel's si_code is then positive, as a fault's is.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static volatile int told;
static siginfo_t about;

static void note(int number, siginfo_t* info, void* context) {
  (void)context;
  told = number;
  about = *info;
}

static void catch(int number) {
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(number, &action, NULL) == 0);
}

static pid_t make(int exit_signal, int code) {
  pid_t child = (pid_t)syscall(SYS_clone, (unsigned long)exit_signal, 0, 0, 0, 0);
  CHECK(child >= 0);
  if (child == 0) _exit(code);
  return child;
}

static void await(pid_t child, int code) {
  int status = 0;
  pid_t found;
  do found = waitpid(child, &status, __WALL);
  while (found < 0 && errno == EINTR);
  CHECK(found == child && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

int main(void) {
  const int numbers[] = {SIGCHLD, SIGUSR1, SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGSYS, 63, 64};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const int number = numbers[i], code = (int)i + 20;
    // A handler is told of it.
    catch(number);
    told = 0;
    pid_t child = make(number, code);
    await(child, code);
    CHECK(told == number && about.si_signo == number && about.si_code == CLD_EXITED && about.si_pid == child && about.si_status == code);
    // While it is blocked it waits for whoever asks.
    sigset_t set, none;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, number) == 0 && sigprocmask(SIG_BLOCK, &set, &none) == 0);
    told = 0;
    child = make(number, code);
    siginfo_t info;
    const struct timespec enough = {10, 0};
    int taken;
    do taken = sigtimedwait(&set, &info, &enough);
    while (taken < 0 && errno == EINTR);
    CHECK(taken == number && info.si_code == CLD_EXITED && info.si_pid == child && info.si_status == code && told == 0);
    await(child, code);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0 && told == 0);
    // Nobody wants to know.
    CHECK(signal(number, SIG_IGN) != SIG_ERR);
    child = make(number, code);
    if (number == SIGCHLD) CHECK(waitpid(child, NULL, 0) == -1 && errno == ECHILD);  // it is reaped by itself then
    else await(child, code);
    catch(number);
    printf("%d\n", number);
  }
  // No signal at all.
  told = 0;
  await(make(0, 3), 3);
  CHECK(told == 0);
  // What nobody handles kills, by the number that it has.
  const int deadly[] = {SIGUSR1, SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGSYS, 64};
  for (unsigned i = 0; i < sizeof deadly / sizeof *deadly; i++) {
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(signal(deadly[i], SIG_DFL) != SIG_ERR);
      make(deadly[i], 0);
      for (;;) pause();
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == deadly[i]);
  }
  return success();
}
